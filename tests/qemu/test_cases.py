# SPDX-License-Identifier: GPL-2.0-or-later
"""The cases of the groups on Debian's kernels: each is counted or absent, and on its own path."""

import re
from functools import cache

import pytest

from kentry.arch import ARCHES
from kentry.boot.exact import ExactOptions
from kentry.count.catalogue import choose
from kentry.results import caveats
from kentry.results.recording import Recording

from .test_record import KERNEL, fetched, recorded

pytestmark = pytest.mark.qemu

GROUPS = ("entry", "events", "io", "memory", "process", "work")
# Functions without which a case would not measure what it says.
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "accept4+close": ("unix_accept", "unix_release_sock"),
    "brk": ("mas_store_gfp", "unmap_page_range"),
    "cow-fault": ("do_wp_page",),
    "epoll_wait": ("do_epoll_wait", "eventfd_poll"),
    "eventfd": ("eventfd_write", "eventfd_read"),
    "futex": ("do_futex", "futex_wake", "futex_wait", "__schedule"),
    "futex-wake": ("do_futex", "futex_wake"),
    "getppid-audit": ("__audit_syscall_entry", "__audit_syscall_exit"),
    "getppid-ptrace": ("ptrace_stop", "__schedule"),
    "getppid-seccomp": ("__seccomp_filter",),
    **{
        f"getppid-audit-{rules}": ("__audit_syscall_entry", "__audit_filter_op")
        for rules in (1, 10, 100)
    },
    "getppid-dispatch": ("syscall_user_dispatch",),
    "getppid-tracepoints": ("trace_event_raw_event_sys_enter", "rb_commit"),
    "getrandom": ("chacha_permute",),
    "io_uring_enter": ("io_submit_sqes", "io_issue_sqe"),
    "ioctl": ("tty_ioctl", "tty_mode_ioctl"),
    "mmap+munmap": ("do_mmap", "unmap_page_range"),
    "mprotect": ("mprotect_fixup", "change_protection"),
    "nanosleep": ("do_nanosleep", "__schedule", "schedule_idle"),
    "page-fault": ("__handle_mm_fault", "get_page_from_freelist"),
    "poll": ("do_sys_poll", "eventfd_poll"),
    "prctl": ("__get_task_comm",),
    "preempt": ("hrtimer_interrupt", "__schedule"),
    "preempt-rseq": ("hrtimer_interrupt", "__schedule", "__rseq_handle_notify_resume"),
    "sendmsg+recvmsg": ("unix_stream_sendmsg", "unix_stream_read_generic"),
    "sigreturn": ("restore_altstack",),
    "signalfd": ("__send_signal_locked", "dequeue_signal"),
    "timerfd": ("hrtimer_start_range_ns", "hrtimer_try_to_cancel"),
    "clone3+exit": ("copy_process", "do_exit", "futex_wait"),
    "execve": ("bprm_execve", "load_elf_binary"),
}
# Debian's kernels have CONFIG_LEGACY_VSYSCALL_NONE; slice extensions came with 7.0, and arm64's
# generic entry after 6.12.
ABSENT = {
    "time@vsyscall": "the kernel has no vsyscall page",
    "preempt-slice": "the kernel has no slice extensions of rseq",
    "getppid-shadow-stack": "the kernel has no shadow stacks on this processor",
}
ABSENT_ON = {"arm64": {"getppid-dispatch": "the kernel has no syscall user dispatch"}}


def wanted_of(arch: str) -> tuple[str, ...]:
    return (*choose(ARCHES[arch], GROUPS), "getppid")


@cache
def of_all_groups(arch: str) -> Recording:
    """In all contexts on one architecture, in one context on the others: that takes a fifth."""
    rounds = 8 if arch == "arm64" else 1
    options = ExactOptions(wanted_of(arch), windows=40, path_windows=40, rounds=rounds)
    return recorded(fetched(KERNEL, arch), options)


@pytest.mark.parametrize("arch", ARCHES)
def test_every_case_of_a_group_is_on_its_own_path_or_absent(arch: str) -> None:
    wanted, recording = wanted_of(arch), of_all_groups(arch)
    absent = ABSENT | ABSENT_ON.get(arch, {})
    assert [one for one in recording.caveats if one["kind"].startswith("case-")] == [
        caveats.case_absent(name, absent[name]) for name in wanted if name in absent
    ]
    assert {case.name for case in recording.cases} == set(wanted) - absent.keys()
    for name, expected in FUNCTIONS.items():
        if name in absent:
            continue
        case = recording.case(name)
        assert case
        functions = {insn.function for path in case.paths for insn in recording.instructions(path)}
        # A compiler's part of a function has a suffix.
        assert set(expected) <= {one.partition(".")[0] for one in functions}, name


@pytest.mark.parametrize("arch", ARCHES)
def test_what_stands_before_getppid_does_not_change_getppid(arch: str) -> None:
    cases = map(of_all_groups(arch).case, ("getppid", "getppid-seccomp", "getppid-audit"))
    plain, *behind = (dict(case.functions) for case in cases if case)
    assert len(behind) == 2
    own = {name: count for name, count in plain.items() if re.search("getppid|pid_nr_ns", name)}
    assert len(own) == 2
    for functions in behind:
        assert own.items() <= functions.items()
        assert sum(functions.values()) > sum(plain.values())


def test_checks_of_memory_tags_are_on_in_a_machine_with_tags() -> None:
    """check_mte_async_tcf and mte_set_user_gcr in arch/arm64/kernel/entry.S."""
    recording = recorded(
        fetched(KERNEL, "arm64"),
        ExactOptions(cases=("getppid", "getppid-mte"), windows=40, path_windows=40, rounds=1),
    )
    assert recording.target["machine"] == "virt,mte=on"
    plain, tagged = (dict(case.functions) for case in recording.cases)
    assert {name for name in tagged if tagged[name] != plain.get(name)} == {
        *("el0t_64_sync", "ret_to_user")
    }
    assert sum(tagged.values()) > sum(plain.values())


# QEMU 7.2 hangs with two cpus of riscv64.
@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_a_second_cpu_without_ticks_accounts_at_each_entry_and_exit(arch: str) -> None:
    """kernel/context_tracking.c, kernel/sched/cputime.c; the other case runs on the first cpu."""
    cases = ("getppid", "getppid-nohz-full")
    options = ExactOptions(cases=cases, windows=40, path_windows=40, rounds=1)
    recording = recorded(fetched(KERNEL, arch), options)
    assert "nohz_full=1" in recording.target["cmdline"].split()
    plain, tickless = (dict(case.functions) for case in recording.cases)
    assert {"vtime_user_exit", "vtime_user_enter"} <= tickless.keys() - plain.keys()


@pytest.mark.parametrize("arch", ARCHES)
def test_an_audit_rule_costs_the_same_whichever_cases_run_before(arch: str) -> None:
    """Rules are gone after their case, and what tracepoints leave changes no count."""
    kernel = fetched(KERNEL, arch)
    rules = {f"getppid-audit-{number}": number for number in (1, 10, 100)}
    options = ExactOptions(cases=tuple(rules), windows=40, path_windows=40, rounds=1)
    counts = {
        case.name: case.metrics["instructions"].value for case in recorded(kernel, options).cases
    }
    one, ten, hundred = (counts[name] for name in rules)
    each = (ten - one) // 9
    assert each > 0
    assert (ten, hundred) == (one + 9 * each, one + 99 * each)
    among_all = map(of_all_groups(arch).case, rules)
    assert [case and case.metrics["instructions"].value for case in among_all] == [*counts.values()]
