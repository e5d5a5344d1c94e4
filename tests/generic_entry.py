# SPDX-License-Identifier: GPL-2.0-or-later
"""A history of Linux 6.1 in which one commit converts riscv to the generic entry code.

python -m tests.generic_entry FOLDER makes it and prints a line a commit.

Upstream did so in 6.4 ("riscv: entry: Convert to generic entry", f0bddf50586d).  Debian has the
source of 6.1 and of 6.12 and no commits between.  The code therefore comes from the two source
packages when this runs: the functions of the entry from 6.12, without what came to them after
the conversion (vector state, shadow call stacks, interrupt stacks, the randomised stack offset,
wrapped system calls), and the rest from 6.1.  Edits of our own join the two.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from kentry.kernels import debian
from kentry.kernels.repository import Revision
from kentry.kernels.spec import parse
from kentry.progress import progress
from tests.histories import commit_header, data, git

OLD, NEW = "source:6.1", "source:6.12"

_WHO = "A Developer <developer@example.org>"
# From 1 March 2023 on, a commit a day: the ids are the same on every machine.
_FIRST_SECOND, _DAY_SECONDS = 1677628800, 86400

_ASM = "arch/riscv/include/asm"
_KERNEL = "arch/riscv/kernel"


class Source(dict[str, str]):
    """The files of a revision by path, read when they are asked for."""

    def __init__(self, revision: Revision) -> None:
        super().__init__()
        self._revision = revision
        # What was put since it was last emptied; None is a file that is removed.
        self.edited: dict[str, str | None] = {}

    def __missing__(self, path: str) -> str:
        text = self._revision.file(path)
        if text is None:
            raise ValueError(f"{path} is not in the source.")
        self[path] = text
        return text

    def put(self, path: str, text: str) -> None:
        """Makes `text` the file's."""
        self[path] = text
        self.edited[path] = text

    def remove(self, path: str) -> None:
        """Removes the file."""
        self.edited[path] = None

    def sub(self, path: str, pattern: str, replacement: str) -> None:
        """Replaces in the file the one place that `pattern` matches."""
        self.put(path, sub(pattern, replacement, self[path]))

    def insert(self, path: str, text: str, before: str) -> None:
        """Inserts `text` where a line begins with `before`, the only one that does."""
        self.sub(path, f"^(?={re.escape(before)})", text)


def sub(pattern: str, replacement: str, text: str) -> str:
    """Replaces the one place that `pattern` matches; ValueError where there is none, or another.

    ^ and $ are the ends of lines, and . is any character.  `replacement` is taken as it is.
    """
    changed, count = re.subn(pattern, lambda _: replacement, text, flags=re.MULTILINE | re.DOTALL)
    if count != 1:
        raise ValueError(f"{count} places match {pattern!r}, and not one.")
    return changed


def piece(text: str, start: str, end: str) -> str:
    """From the one place that `start` matches to before the next that `end` does, or ValueError."""
    found = re.findall(f"(?:{start}).*?(?={end})", text, flags=re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise ValueError(f"{len(found)} places match {start!r}, and not one.")
    return str(found[0])


Edit = Callable[["Source", "Source"], None]
# Each commit's message, and how it edits 6.1's files, the first, given 6.12's.
STEPS: list[tuple[str, Edit]] = []


def step(subject: str, body: str) -> Callable[[Edit], Edit]:
    """The next commit is the decorated edit's."""

    def added(edit: Edit) -> Edit:
        STEPS.append((f"{subject}\n\n{body}", edit))
        return edit

    return added


def make(folder: Path) -> str:
    """Makes the history in `folder`, new or empty, in seconds; returns the range of its commits.

    Its files are those of kentry's own repository of 6.1, and are not copied.  The first time it
    fetches and unpacks both sources: minutes, 4 GB of cache.  FetchError where they cannot be
    had, ValueError where they are not those that the edits were written for.
    """
    with progress("the source of Linux 6.1 and 6.12") as update:
        old, new = (debian.revision(parse(text), update) for text in (OLD, NEW))
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--bare", "--template=", "--initial-branch=master")
    objects = (old.repository.git.folder / "objects").resolve()
    (folder / "objects/info").mkdir(exist_ok=True)
    (folder / "objects/info/alternates").write_text(f"{objects}\n", encoding="utf-8")
    stream = "".join(_stream(old.commit, Source(old), Source(new)))
    git(folder, "fast-import", "--quiet", feed=stream.encode())
    return f"{old.commit}..refs/heads/master"


def _stream(root: str, old: Source, new: Source) -> Iterator[str]:
    """What git fast-import makes a history of: a commit a step, and the first one's parent `root`.

    The edits see each other's work in `old`.
    """
    for number, (message, edit) in enumerate(STEPS):
        when = f"{_FIRST_SECOND + number * _DAY_SECONDS} +0000"
        yield commit_header(number + 1, _WHO, when, when, message)
        if number == 0:
            yield f"from {root}\n"
        old.edited = {}
        edit(old, new)
        for path, text in sorted(old.edited.items()):
            yield f"D {path}\n" if text is None else f"M 100644 inline {path}\n{data(text)}"


# --- before the conversion --------------------------------------------------


@step("Documentation: riscv: Say where a system call enters", "Nothing is compiled of this.")
def _document(old: Source, _: Source) -> None:
    path = "Documentation/riscv/features.rst"
    text = "A system call enters the kernel in arch/riscv/kernel/entry.S.\n"
    old.put(path, f"{old[path].rstrip()}\n\n{text}")


@step("riscv: asm: Add macros that save and restore registers", "Nothing uses them yet.")
def _add_macros(old: Source, new: Source) -> None:
    path, end = f"{_ASM}/asm.h", "#endif /* __ASSEMBLY__ */"
    pointer = piece(
        new[path], "^/[^/]*/\n.macro load_global_pointer\n.option push", "^#endif /. CONFIG_SHADOW"
    )
    registers = piece(new[path], r"^\t/\* save all GPs except", f"^{re.escape(end)}")
    old.insert(path, f"{pointer}\n{registers}", end)


@step("arm64: syscall: Say what invoke_syscall() does", "No functional change.")
def _comment_arm64(old: Source, _: Source) -> None:
    comment = "/* Calls the handler of one system call; what it returns is the user's x0. */\n"
    start = "static void invoke_syscall(struct pt_regs *regs,"
    old.insert("arch/arm64/kernel/syscall.c", comment, start)


@step("riscv: stacktrace: Add on_thread_stack()", "The generic entry code asks for it.")
def _add_on_thread_stack(old: Source, new: Source) -> None:
    path = f"{_ASM}/stacktrace.h"
    function = piece(new[path], "^static inline bool on_thread_stack", "^\n")
    old.insert(path, f"{function}\n", "#endif /* _ASM_RISCV_STACKTRACE_H */")


@step("irqchip/sifive-plic: Shorten the message about what was mapped", "It wrapped.")
def _shorten_message(old: Source, _: Source) -> None:
    was = r'"%pOFP: mapped %d interrupts with %d handlers for"\s*" %d contexts\.'
    old.sub(
        "drivers/irqchip/irq-sifive-plic.c", was, '"%pOFP: %d interrupts, %d handlers, %d contexts'
    )


@step("riscv: Add asm/entry-common.h", "The generic entry code includes it.")
def _add_header(old: Source, new: Source) -> None:
    path = f"{_ASM}/entry-common.h"
    text = new[path]
    for later in (
        r"^#include <asm/thread_info\.h>\n#include <asm/vector\.h>\n",
        r"^static inline void arch_exit_to_user_mode_prepare.*?^#define arch_exit_to_[^\n]*\n\n",
        "^#ifdef CONFIG_RISCV_MISALIGNED\n.*?^#endif\n\n",
    ):
        text = sub(later, "", text)
    old.put(path, text)


# --- the conversion ---------------------------------------------------------


@step(
    "riscv: entry: Convert to generic entry",
    "System calls, interrupts and exceptions run the code of kernel/entry/\n"
    "before and after their handlers. The assembly only saves and restores\n"
    "registers; what a system call does between is C.",
)
def _convert(old: Source, new: Source) -> None:
    old.insert("arch/riscv/Kconfig", "\tselect GENERIC_ENTRY\n", "\tselect GENERIC_GETTIMEOFDAY")
    _entry(old, new)
    _traps(old, new)
    _system_calls(old, new)
    _pending_work(old, new)
    _new_tasks(old)


def _entry(old: Source, new: Source) -> None:
    """Entry and return in assembly; __switch_to and the table of exceptions stay as they were."""
    path = f"{_KERNEL}/entry.S"
    text = piece(new[path], r"^SYM_CODE_START\(handle_exception\)", "^#ifdef CONFIG_IRQ_STACKS")
    for later in (
        # The check for new vmalloc mappings.
        "^#ifdef CONFIG_64BIT\n.*?^#endif\n\n",
        r"^\t/\* Load the kernel shadow call stack[^\n]*\n[^\n]*\n\n",
        r"^\t/\* Save the kernel shadow call stack[^\n]*\n[^\n]*\n\n",
        "^#ifdef CONFIG_GCC_PLUGIN_STACKLEAK\n.*?^#endif\n\n",
        "^#ifdef CONFIG_RISCV_ISA_V_PREEMPTIVE\n[^#]*nesting_start\n#endif\n",
        "^#ifdef CONFIG_RISCV_ISA_V_PREEMPTIVE\n[^#]*nesting_end\n#endif\n",
    ):
        text = sub(later, "", text)
    text = sub(re.escape(_mask(new)), _mask(old), text)
    old.sub(path, r"^#if !IS_ENABLED\(CONFIG_PREEMPTION\)\n.*?^#endif\n\n", "")
    was = r"^ENTRY\(handle_exception\).*^ENDPROC\(ret_from_kernel_thread\)\n"
    old.sub(path, was, f"{text.rstrip()}\n")
    old.sub(path, ", gets intercepted ", " ")
    # A handler now returns into handle_exception, where a stack trace finds the registers.
    path = f"{_KERNEL}/stacktrace.c"
    declared = piece(new[path], r"^extern asmlinkage void handle_exception", "^\n")
    condition = piece(new[path], r"^\t\t\tif \(pc >= \(unsigned long\)handle_exc", r"^\t{4}if")
    old.sub(path, r"^extern asmlinkage void ret_from_exception\(void\);\n", declared)
    old.sub(path, r"^\t\t\tif \(pc == \(unsigned long\)ret_from_exception[^\n]*\n", condition)


def _mask(source: Source) -> str:
    """What entry turns off in the status register; 6.12 knows vector state too."""
    start, end = r"^\t/\*\n\t \* Disable user-mode memory", r"^\n\tREG_L s0, TASK_TI_USER_SP"
    return piece(source[f"{_KERNEL}/entry.S"], start, end)


def _traps(old: Source, new: Source) -> None:
    """The handlers in C: the generic code runs before and after what they did in 6.1."""
    path = f"{_KERNEL}/traps.c"
    handlers = piece(
        new[path],
        r"^asmlinkage __visible __trap_section void do_trap_break\(",
        "^#ifdef CONFIG_GENERIC_BUG",
    )
    for later in (
        r"^\t\triscv_v_vstate_discard[^\n]*\n\n",
        r"^\t\tadd_random_kstack_offset[^\n]*\n\n",
        r"^\t\t/\*\n\t\t \* Ultimately, this value.*?choose_random_kstack_offset[^\n]*\n\n",
        r"  __no_stack_protector(?=\nvoid do_trap_ecall_u)",
        _CLAMP,
        r"^\tif \(IS_ENABLED\(CONFIG_IRQ_STACKS\).*?^\telse\n\t(?=\thandle_riscv_irq)",
    ):
        handlers = sub(later, "", handlers)
    macro = piece(new[path], r"^#define DO_ERROR_INFO\(", r"^DO_ERROR_INFO\(")
    misaligned = piece(
        new[path], "^enum misaligned_access_type {", r"^DO_ERROR_INFO\(do_trap_store_fault"
    )
    old.insert(path, "#include <linux/entry-common.h>\n", "#include <linux/kexec.h>")
    old.insert(path, "#include <asm/syscall.h>\n", "#include <asm/thread_info.h>")
    old.sub(path, "^#define __trap_section$", "#define __trap_section noinstr")
    old.sub(path, r"^#define DO_ERROR_INFO\(.*?^}\n\n", macro)
    was = "^asmlinkage void __trap_section do_trap_load_misaligned.*?(?=^#endif\nDO_ERROR_INFO)"
    old.sub(path, was, misaligned)
    old.sub(path, r"^DO_ERROR_INFO\(do_trap_ecall_u,[^;]*;\n", "")
    was = r"^asmlinkage __visible __trap_section void do_trap_break\("
    old.sub(path, was, "void handle_break(")
    was = r"^NOKPROBE_SYMBOL\(do_trap_break\);\n"
    old.sub(path, was, f"NOKPROBE_SYMBOL(handle_break);\n\n{handlers.rstrip()}\n")
    path = "arch/riscv/mm/fault.c"
    old.insert(path, "#include <linux/entry-common.h>\n", "#include <linux/kfence.h>")
    old.sub(path, r"^asmlinkage void do_page_fault\(", "void handle_page_fault(")
    old.sub(path, r"^NOKPROBE_SYMBOL\(do_page_fault\);\n", "")
    declared = "asmlinkage void do_page_fault(struct pt_regs *regs);\n"
    old.sub(f"{_KERNEL}/head.h", f"^{re.escape(declared)}", "")
    declared += "asmlinkage void do_irq(struct pt_regs *regs);\n\n"
    old.insert(f"{_ASM}/asm-prototypes.h", declared, "#endif /* _ASM_RISCV_PROTOTYPES_H */")
    path = f"{_ASM}/ptrace.h"
    interrupts = piece(new[path], "^static inline int regs_irqs_disabled", "^#endif")
    old.insert(path, interrupts, "#endif /* __ASSEMBLY__ */")


# The line that keeps a wrong number from indexing the table under speculation.
_CLAMP = r"^\t{3}syscall = array_index_nospec\([^\n]*\n"


def _system_calls(old: Source, new: Source) -> None:
    """The handler's call in C, and what traces a system call, which the generic code does."""
    path = f"{_ASM}/syscall.h"
    called = piece(new[path], r"^typedef long \(\*syscall_t\)", "^asmlinkage long sys_riscv_flush")
    # The handlers of 6.1 take what the user's registers held, not the registers.
    called = sub(r"\(const struct pt_regs \*\)", f"({', '.join(['ulong'] * 7)})", called)
    registers = ", ".join(f"regs->{name}" for name in ("orig_a0", *(f"a{i}" for i in range(1, 7))))
    called = sub(r"fn\(regs\)", f"fn({registers})", called)
    old.insert(path, called, "asmlinkage long sys_riscv_flush_icache(")
    path = f"{_ASM}/ptrace.h"
    old.sub(path, r"^int do_syscall_trace_enter\([^\n]*\nvoid do_syscall_trace_exit\([^\n]*\n", "")
    emulated = piece(new[path], r"^#define PTRACE_SYSEMU\t", "^#ifdef CONFIG_64BIT")
    old.insert(path, emulated, "#ifdef CONFIG_64BIT\n#define REG_FMT")
    path = f"{_KERNEL}/ptrace.c"
    old.sub(path, r"^#define CREATE_TRACE_POINTS\n#include <trace/events/syscalls\.h>\n\n", "")
    old.sub(path, r"^\tclear_tsk_thread_flag\(child, TIF_SYSCALL_TRACE\);\n", "")
    start, end = r"^/\*\n \* Allows PTRACE_SYSCALL to work", r"(?=^#ifdef CONFIG_COMPAT\n)"
    old.sub(path, f"{start}.*?{end}", "")
    path = f"{_ASM}/thread_info.h"
    work = piece(new[path], r"^\tunsigned long\t\tsyscall_work;", "^#ifdef")
    old.sub(path, r"(?<=^\tint\t\t\tcpu;\n)", work)


def _pending_work(old: Source, new: Source) -> None:
    """Signals and what else is done before the return to user space, which is generic code's."""
    path = f"{_KERNEL}/signal.c"
    old.sub(path, r"^#include <linux/resume_user_mode\.h>\n", "#include <linux/entry-common.h>\n")
    old.sub(path, r"^static void do_signal\(", "void arch_do_signal_or_restart(")
    old.sub(path, r"\n/\*\n \* Handle any pending work on the resume-to-userspace.*", "")
    path = f"{_ASM}/thread_info.h"
    for gone in (
        r"^#define TIF_SYSCALL_TRACE\t[^\n]*\n",
        r"^#define TIF_SYSCALL_TRACEPOINT.*?(?=^#define TIF_NOTIFY_SIGNAL)",
        r"^#define _TIF_SYSCALL_TRACE\t[^\n]*\n",
        r"^#define _TIF_SYSCALL_TRACEPOINT.*?(?=^#define _TIF_NOTIFY_SIGNAL)",
        r"^#define _TIF_WORK_MASK.*?(?=^#endif)",
    ):
        old.sub(path, gone, "")


def _new_tasks(old: Source) -> None:
    """One function that all new tasks begin in: s0 is a kernel thread's function, or 0."""
    path = f"{_KERNEL}/process.c"
    old.sub(path, r"^extern asmlinkage void ret_from_kernel_thread\(void\);\n", "")
    old.sub(path, r"^\t\tp->thread\.ra = \(unsigned long\)ret_from_kernel_thread;\n", "")
    was = r"^\t\tp->thread\.ra = \(unsigned long\)ret_from_fork;\n\t}\n"
    now = "\t\tp->thread.s[0] = 0;\n\t}\n\tp->thread.ra = (unsigned long)ret_from_fork;\n"
    old.sub(path, was, now)


# --- after the conversion ---------------------------------------------------


@step(
    "riscv: Remove the wrappers of trace_hardirqs_on() and _off()",
    "Only the entry in assembly called them.",
)
def _remove_wrappers(old: Source, _: Source) -> None:
    old.sub(f"{_KERNEL}/Makefile", r"^obj-\$\(CONFIG_TRACE_IRQFLAGS\)\t\+= trace_irq\.o\n\n", "")
    for name in ("trace_irq.c", "trace_irq.h"):
        old.remove(f"{_KERNEL}/{name}")


@step("x86/entry: Say what do_syscall_x64() returns", "No functional change.")
def _comment_x86(old: Source, _: Source) -> None:
    comment = "/* Returns whether nr was the number of a system call. */\n"
    start = "static __always_inline bool do_syscall_x64("
    old.insert("arch/x86/entry/common.c", comment, start)


@step(
    "riscv: entry: Clamp the number of a system call under speculation",
    "A wrong number must not index the table of handlers.",
)
def _clamp(old: Source, new: Source) -> None:
    path = f"{_KERNEL}/traps.c"
    old.insert(path, piece(new[path], _CLAMP, ""), "\t\t\tsyscall_handler(regs, syscall);")
    old.insert(path, "#include <linux/nospec.h>\n", "#include <linux/entry-common.h>")


@step("riscv: irq: Say what handle_riscv_irq() does", "No functional change.")
def _comment_traps(old: Source, _: Source) -> None:
    comment = "/* Calls the interrupt controller's handler; entry.S has saved the registers. */\n"
    old.insert(f"{_KERNEL}/traps.c", comment, "static void noinstr handle_riscv_irq(")


@step(
    "riscv: entry: Disable the vector unit in the kernel",
    "Vector instructions in the kernel are a mistake, as floating point is.",
)
def _disable_vector(old: Source, new: Source) -> None:
    path = f"{_ASM}/csr.h"
    state = piece(new[path], r"^#define SR_VS\t", r"^#define SR_XS\t")
    both = piece(new[path], r"^#define SR_FS_VS\t", "^\n")
    old.insert(path, f"{state}{both}\n", "#define SR_XS\t")
    old.sub(f"{_KERNEL}/entry.S", re.escape(_mask(old)), _mask(new))


@step("tty: serial: sifive: Shorten an error message", "The device's name is in front of it.")
def _reword_error(old: Source, _: Source) -> None:
    old.sub("drivers/tty/serial/sifive.c", '"unable to find controller clock', '"no clock')


def main(folder: Path) -> None:
    """Makes the history and prints its commits, oldest first."""
    print(git(folder, "log", "--reverse", "--format=%h %s", make(folder)), end="")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
