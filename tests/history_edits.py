# SPDX-License-Identifier: GPL-2.0-or-later
"""The small changes that a history is made of, each with the place in the kernel where it goes.

Every change can be made to any 6.12, alone and in any order: none touches the line by which
another finds its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class AnchorError(Exception):
    """The source has no place for an edit; the sentence names file and line."""


@dataclass(frozen=True)
class Edit:
    """What is done to the text of one file; `apply` raises AnchorError where it has no place."""

    path: str
    apply: Callable[[str], str]


def _whole_line(line: str) -> str:
    """A pattern for that line with any white space."""
    return r"^[ \t]*" + r"\s+".join(map(re.escape, line.split())) + r"[ \t]*\n"


def _only(path: str, pattern: str, line: str, text: str) -> tuple[int, int]:
    """Where the only place that the pattern matches begins and ends."""
    places = [match.span() for match in re.finditer(pattern, text, re.MULTILINE)]
    if len(places) != 1:
        raise AnchorError(
            f"{path} has {len(places)} lines '{line.strip()}' where an edit needs one:"
            " give the edit in tests/history_edits.py another place."
        )
    return places[0]


def insert(path: str, text: str, line: str = "", *, after: bool = False) -> Edit:
    """Puts `text` before or after the only line that reads `line`; at the end without one."""

    def apply(source: str) -> str:
        start = end = len(source)
        if line:
            start, end = _only(path, _whole_line(line), line, source)
        at = end if after else start
        return source[:at] + text + source[at:]

    return Edit(path, apply)


def replace(path: str, old: str, new: str = "") -> Edit:
    """Writes `new` where `old` is, which is there once."""

    def apply(source: str) -> str:
        start, end = _only(path, re.escape(old), old, source)
        return source[:start] + new + source[end:]

    return Edit(path, apply)


def _function(path: str, line: str, source: str) -> tuple[int, int]:
    """Where the function that begins with this line begins and ends."""
    start, _ = _only(path, _whole_line(line), line, source)
    end = source.find("\n}\n", start)
    if end < 0:
        raise AnchorError(f"{path}: the function that begins with '{line}' has no end.")
    return start, end + len("\n}\n")


def _rename(path: str, line: str, old: str, new: str) -> Edit:
    """Gives a local variable of the function that begins with `line` another name."""

    def apply(source: str) -> str:
        start, end = _function(path, line, source)
        body, count = re.subn(rf"\b{old}\b", new, source[start:end])
        if not count:
            raise AnchorError(f"{path}: '{line}' has no variable {old}.")
        return source[:start] + body + source[end:]

    return Edit(path, apply)


def _move(path: str, line: str, before: str) -> Edit:
    """Moves the function that begins with `line` before the line that reads `before`."""

    def apply(source: str) -> str:
        start, end = _function(path, line, source)
        function, rest = source[start:end], source[:start] + source[end:].removeprefix("\n")
        at, _ = _only(path, _whole_line(before), before, rest)
        return f"{rest[:at]}{function}\n{rest[at:]}"

    return Edit(path, apply)


@dataclass(frozen=True)
class Change:
    """What one commit does.  `repair` undoes what is wrong with it; `adds` is instructions."""

    kind: str
    subject: str
    body: str
    edits: tuple[Edit, ...]
    adds: int = 0
    repair: tuple[Edit, ...] = ()


ENTRY = "arch/riscv/kernel/entry.S"
TRAPS = "arch/riscv/kernel/traps.c"
SYSCALL = "arch/riscv/include/asm/syscall.h"
GENERIC = "include/linux/entry-common.h"

# The handlers expect nothing in these; the return to user space loads all of them.
_SCRATCH = ("s6", "s7", "s8", "s9", "s10", "s11", "t1", "t2", "t3", "t4", "t5", "t6")
# The most instructions that a step has.
MOST = len(_SCRATCH)


def _instructions(count: int, tabs: int, why: str) -> str:
    """The text of `count` instructions: C behind `tabs` tabs, or assembly where there are none."""
    if not tabs:
        cleared = "".join(f"\tli {register}, 0\n" for register in _SCRATCH[:count])
        return f"\t/* {why} */\n{cleared}"
    # gcc takes this for one short instruction (inline) that changes no memory (the colons), so that
    # the rest of the function comes out as without it.  Two of them in one function of GENERIC
    # would still change where it jumps; in the other places the opcodes were compared.
    no_ops = f'asm_inline volatile(".rept {count}\\n\\tnop\\n\\t.endr" : : );'
    return "".join("\t" * tabs + line + "\n" for line in (f"/* {why} */", no_ops))


# Each step: file, line, whether after it, tabs, why, subject and message.
_MORE = (
    (
        *(ENTRY, "scs_load_current_if_from_user s1, s5", True, 0),
        "No value of the user's is left for the handlers to speculate with.",
        "riscv: entry: Clear registers that the handlers do not expect",
        "What user space left in the registers is saved by now. Clear those that\n"
        "no handler reads, as arm64 and x86 do.",
    ),
    (
        *(TRAPS, "add_random_kstack_offset();", False, 2),
        "Straight-line speculation ends here.",
        "riscv: traps: Keep speculation away from system calls",
        "Some cores run ahead of the check of the system call's number. Give them\n"
        "something harmless to run.",
    ),
    (
        *(SYSCALL, "regs->a0 = fn(regs);", False, 1),
        "The load of fn must be over on cores that guess it.",
        "riscv: syscall: Wait for the table before it is used",
        "Cores that predict the value of a load may call another function first.",
    ),
    (
        *(GENERIC, "if (work & SYSCALL_WORK_ENTER)", False, 1),
        "Let the flags settle.",
        "entry: Let the work flags settle before they are tested",
        "Another CPU may be setting one just now. A few cycles make it less likely\n"
        "that the work waits for the next system call.",
    ),
)
STEPS = range(len(_MORE))


def more_instructions(number: int, count: int) -> Change:
    """A change that adds `count` instructions."""
    path, line, after, tabs, why, subject, body = _MORE[number]
    edit = insert(path, _instructions(count, tabs, why), line, after=after)
    return Change("more-instructions", subject, body, (edit,), count)


# What a history begins with, so that a later commit can take it away.
_BALLAST = (
    (
        *(ENTRY, "REG_L a0, PT_STATUS(sp)", 0),
        "Nothing that the handler left reaches the loads below.",
        "riscv: entry: Do not clear what is loaded again",
    ),
    (
        *(TRAPS, "syscall_exit_to_user_mode(regs);", 2),
        "Early silicon needs some distance to what follows.",
        "riscv: traps: Drop the work-around for early silicon",
    ),
    (
        *(ENTRY, "scs_load_current_if_from_user s1, s5", 0),
        "A trap inside a trap finds these as the first one did.",
        "riscv: entry: Do not clear registers for traps inside traps",
    ),
)
BALLASTS = len(_BALLAST)


def ballast(number: int, count: int) -> tuple[Edit, Change]:
    """What the first commit adds, and the change that takes those `count` instructions away."""
    path, line, tabs, why, subject = _BALLAST[number]
    text = _instructions(count, tabs, why)
    body = "No supported hardware needs it."
    change = Change("fewer-instructions", subject, body, (replace(path, text),), -count)
    return insert(path, text, line), change


def _note(text: str) -> str:
    return f"/*\n * {text}\n */\n"


_MAY_CHANGE = "No functional change intended."


def _comment(path: str, area: str, line: str, text: str) -> Change:
    edit = insert(path, _note(text), line)
    return Change("comment", f"{area}: Say what the caller may rely on", _MAY_CHANGE, (edit,))


_COMMENTS = (
    _comment(
        "kernel/sys.c", "sys", "SYSCALL_DEFINE0(getppid)", "The parent may end while this runs."
    ),
    _comment(
        "kernel/pid.c",
        "pid",
        "pid_t pid_nr_ns(struct pid *pid, struct pid_namespace *ns)",
        "0 where the namespace does not see the process.",
    ),
    _comment(
        "kernel/entry/common.c",
        "entry",
        "__visible noinstr void syscall_exit_to_user_mode(struct pt_regs *regs)",
        "The last C code of a system call.",
    ),
    _comment(
        TRAPS,
        "riscv: traps",
        "static void noinstr handle_riscv_irq(struct pt_regs *regs)",
        "Runs on the IRQ stack where there is one.",
    ),
    Change(
        "comment",
        "riscv: entry: Say why the registers are saved first",
        _MAY_CHANGE,
        (
            insert(
                ENTRY,
                "\t/* Nothing may be overwritten before it is saved. */\n",
                "REG_S sp, TASK_TI_USER_SP(tp)",
            ),
        ),
    ),
    _comment(
        "kernel/sched/core.c",
        "sched/core",
        "asmlinkage __visible void __sched schedule(void)",
        "May return on another CPU.",
    ),
    _comment(
        "mm/mmap.c",
        "mm/mmap",
        "SYSCALL_DEFINE1(brk, unsigned long, brk)",
        "Returns the old end of the heap where it cannot be moved.",
    ),
    _comment("fs/exec.c", "exec", "", "All of this runs on behalf of the caller."),
)

# Each is included by most files.  The guards are near the top, so all lines below move.
_HEADERS = tuple(
    Change(
        "header",
        f"{name}.h: Document what belongs here",
        _MAY_CHANGE,
        (insert(f"include/linux/{name}.h", _note(text), guard and f"#define {guard}", after=True),),
    )
    for name, guard, text in (
        ("list", "_LINUX_LIST_H", "Lists that cannot fail: nothing here allocates."),
        ("sched", "_LINUX_SCHED_H", "What only the scheduler needs is in kernel/sched/sched.h."),
        ("err", "_LINUX_ERR_H", "Errors in pointers; see IS_ERR()."),
        ("types", "_LINUX_TYPES_H", "No functions here: every file includes this one."),
        ("spinlock", "", "The raw forms are for code that may not sleep on PREEMPT_RT."),
        ("fs", "", "What only file systems need has headers of its own."),
    )
)


def _driver(area: str, subject: str, *edits: Edit) -> Change:
    return Change("driver", f"{area}: {subject}", "Found while reading the code.", edits)


def _debug(path: str, area: str, line: str, text: str) -> Change:
    edit = insert(path, f'\tpr_debug("{text}\\n");\n', line)
    return _driver(area, "Add a message for debugging", edit)


# The first ones are compiled in a tiny kernel, the others are not.
_DRIVERS = (
    _debug(
        "drivers/base/core.c",
        "driver core",
        "dev->kobj.kset = devices_kset;",
        "device core: a new device",
    ),
    _debug(
        "drivers/base/platform.c",
        "driver core: platform",
        "early_platform_cleanup();",
        "platform: the bus comes up",
    ),
    _driver(
        "tty",
        "Say when the core is ready",
        insert(
            "drivers/tty/tty_io.c",
            '\tpr_info("tty: the core is ready\\n");\n',
            'register_sysctl_init("dev/tty", tty_table);',
        ),
    ),
    _driver(
        "of",
        "Say where the nodes come from",
        insert("drivers/of/base.c", _note("The boot loader passes the first nodes.")),
    ),
    _driver(
        "e1000",
        "Use the preferred module license",
        replace(
            "drivers/net/ethernet/intel/e1000/e1000_main.c",
            'MODULE_LICENSE("GPL v2");',
            'MODULE_LICENSE("GPL");',
        ),
    ),
    *(
        _driver(
            area,
            "Name the module's subsystem",
            insert(
                path, f'MODULE_INFO(subsystem, "{area}");\n', 'MODULE_LICENSE("GPL");', after=True
            ),
        )
        for path, area in (
            ("drivers/scsi/sd.c", "scsi: sd"),
            ("drivers/nvme/host/core.c", "nvme"),
            ("drivers/net/virtio_net.c", "virtio-net"),
            ("drivers/mmc/core/core.c", "mmc: core"),
            ("sound/core/pcm.c", "ALSA: pcm"),
        )
    ),
)

_OTHER_ARCHES = tuple(
    Change(
        "other-arch",
        f"{area}: Describe the way in",
        "Readers look for it here.",
        (insert(path, _note(f"{area}: interrupts are off when this code is entered.")),),
    )
    for path, area in (
        ("arch/arm64/kernel/syscall.c", "arm64: syscall"),
        ("arch/x86/entry/common.c", "x86/entry"),
        ("arch/powerpc/kernel/interrupt.c", "powerpc"),
        ("arch/s390/kernel/syscall.c", "s390/entry"),
        ("arch/mips/kernel/traps.c", "MIPS"),
        ("arch/loongarch/kernel/syscall.c", "LoongArch"),
        ("arch/arm/kernel/traps.c", "ARM"),
    )
)

_DOCUMENTS = tuple(
    Change(
        "documentation",
        f"Documentation: {area}: Add a note on versions",
        "Asked on the list more than once.",
        (insert(path, "\n.. note:: This text describes the version that it comes with.\n"),),
    )
    for path, area in (
        ("Documentation/arch/riscv/vector.rst", "riscv"),
        ("Documentation/arch/riscv/uabi.rst", "riscv/uabi"),
        ("Documentation/core-api/entry.rst", "entry"),
        ("Documentation/process/coding-style.rst", "process"),
        ("Documentation/trace/ftrace.rst", "ftrace"),
        ("Documentation/admin-guide/sysctl/kernel.rst", "sysctl"),
    )
)

_SELFTESTS = tuple(
    Change(
        "selftest",
        f"selftests/{area}: Say what a failure means",
        "Reports of failures left it out.",
        (insert(path, _note("A failure here is a bug of the kernel, not of the test.")),),
    )
    for path, area in (
        ("tools/testing/selftests/timers/posix_timers.c", "timers"),
        ("tools/testing/selftests/seccomp/seccomp_bpf.c", "seccomp"),
        ("tools/testing/selftests/futex/functional/futex_wait.c", "futex"),
        ("tools/testing/selftests/rseq/rseq.c", "rseq"),
        ("tools/testing/selftests/riscv/vector/vstate_prctl.c", "riscv"),
        ("tools/testing/selftests/riscv/hwprobe/hwprobe.c", "riscv/hwprobe"),
    )
)


def _refactoring(area: str, what: str, edit: Edit) -> Change:
    return Change("refactoring", f"{area}: {what}", _MAY_CHANGE, (edit,))


_REFACTORINGS = (
    *(
        _refactoring(area, f"Give {old} a better name", _rename(path, line, old, new))
        for area, path, line, old, new in (
            ("sys", "kernel/sys.c", "SYSCALL_DEFINE0(getppid)", "pid", "parent"),
            (
                *("pid", "kernel/pid.c"),
                "pid_t __task_pid_nr_ns(struct task_struct *task, enum pid_type type,",
                *("nr", "number"),
            ),
            (
                *("entry", "kernel/entry/common.c"),
                "static void syscall_exit_to_user_mode_prepare(struct pt_regs *regs)",
                *("nr", "number"),
            ),
            (
                *("riscv: traps", TRAPS),
                "asmlinkage void noinstr do_irq(struct pt_regs *regs)",
                *("state", "entry_state"),
            ),
            (
                *("read_write", "fs/read_write.c"),
                "ssize_t ksys_read(unsigned int fd, char __user *buf, size_t count)",
                *("ret", "result"),
            ),
        )
    ),
    *(
        _refactoring(area, "Sort the helpers", _move(path, line, before))
        for area, path, line, before in (
            (
                *("riscv: syscall", SYSCALL),
                "static inline int syscall_get_arch(struct task_struct *task)",
                "static inline void syscall_rollback(struct task_struct *task,",
            ),
            (
                *("pid", "include/linux/pid.h"),
                "static inline pid_t task_session_vnr(struct task_struct *tsk)",
                "static inline pid_t task_pgrp_vnr(struct task_struct *tsk)",
            ),
        )
    ),
)

# By kind, what a history has some of.
HARMLESS: tuple[Sequence[Change], ...] = (
    *(_COMMENTS, _HEADERS, _DRIVERS, _OTHER_ARCHES, _DOCUMENTS, _SELFTESTS, _REFACTORINGS),
)


def _broken(
    kind: str, path: str, subject: str, line: str, good: str, bad: str, *, after: bool = False
) -> Change:
    """A change of which `bad` is wrong; the rest stays when it is repaired."""
    edit = insert(path, good + bad, line, after=after)
    body = "The next patches need it."
    return Change(kind, subject, body, (edit,), repair=(replace(path, bad),))


BUILD_BREAKS = (
    _broken(
        "build-break",
        "kernel/exit.c",
        "exit: Add a helper for the exit code",
        "SYSCALL_DEFINE1(exit, int, error_code)",
        _note("What wait() shows of it is the low byte."),
        "static inline int low_byte(struct task_struct *task)\n"
        "{\n\treturn task->exit_kode & 0xff;\n}\n\n",
    ),
    _broken(
        "build-break",
        "kernel/fork.c",
        "fork: Include what is used",
        "#include <linux/rseq.h>",
        "#include <linux/errno.h>\n",
        "#include <linux/task_limits.h>\n",
        after=True,
    ),
    _broken(
        "build-break",
        TRAPS,
        "riscv: traps: Check the size of the saved registers",
        "static DEFINE_RAW_SPINLOCK(die_lock);",
        _note("entry.S saves the registers on the kernel's stack."),
        "static_assert(sizeof(struct pt_regs) == 0);\n\n",
    ),
    _broken(
        "build-break",
        "init/main.c",
        "init: Free the marks of the boot",
        "exit_boot_config();",
        "\t/* Nothing of the boot is needed from here on. */\n",
        "\t{\n\t\textern void free_boot_marks(void);\n\n\t\tfree_boot_marks();\n\t}\n",
        after=True,
    ),
    _broken(
        "build-break",
        "kernel/sys.c",
        "sys: Make sure that types of IDs are numbered from 0",
        "SYSCALL_DEFINE0(getpid)",
        _note("The type is an index."),
        "static_assert(PIDTYPE_PID == 0\n\n",
    ),
    _broken(
        "build-break",
        "include/linux/pid.h",
        "pid: Prepare for a list of namespaces",
        "#define _LINUX_PID_H",
        _note("See Documentation/admin-guide/namespaces for their levels."),
        "struct pid_levels {\n\tstruct pid_level first;\n};\n",
        after=True,
    ),
)

# All of them panic after the console is there, so that nobody waits for a timeout.
BOOT_BREAKS = (
    _broken(
        "boot-break",
        "init/main.c",
        "init: Check that RCU has left its boot mode",
        "rcu_end_inkernel_boot();",
        "\t/* User space must not have to wait for expedited grace periods. */\n",
        '\tif (!rcu_inkernel_boot_has_ended())\n\t\tpanic("init: RCU is still booting\\n");\n',
    ),
    _broken(
        "boot-break",
        TRAPS,
        "riscv: traps: Refuse system calls from the kernel's half",
        "regs->epc += 4;",
        "\t\t/* The instruction is four bytes even where others are two. */\n",
        '\t\tif (regs->epc < TASK_SIZE)\n\t\t\tpanic("riscv: system call from kernel space\\n");\n',
        after=True,
    ),
    _broken(
        "boot-break",
        "fs/binfmt_elf.c",
        "binfmt_elf: Reject programs of other machines early",
        "if (memcmp(elf_ex->e_ident, ELFMAG, SELFMAG) != 0)",
        "\t/* Scripts and other formats are not for us. */\n",
        "\tif (elf_ex->e_machine == EM_RISCV)\n\t\tgoto out;\n",
    ),
    _broken(
        "boot-break",
        "arch/riscv/kernel/process.c",
        "riscv: process: Insist on an aligned stack",
        "regs->epc = pc;",
        "\t/* The ABI aligns the stack to 16 bytes. */\n",
        '\tif (IS_ALIGNED(sp, 16))\n\t\tpanic("riscv: the stack is not aligned\\n");\n',
        after=True,
    ),
)
