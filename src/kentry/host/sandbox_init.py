# SPDX-License-Identifier: GPL-2.0-or-later
"""The first process of a sandbox: runs a program, and ends all of it beyond its limits.

Usage: python -I -S sandbox_init.py PROCESSES MEMORY FILE SECONDS ROOM N FOLDER... PROGRAM...

There are N folders, on whose disks ROOM bytes have to stay free.

It is process 1 of a PID namespace, so nothing in there can kill it, and the kernel kills the rest
when it ends.  setrlimit(2) alone would not do: it does not limit the memory of several processes
together, and the kernel does not hold root to RLIMIT_NPROC.  It imports Python's own modules only.
"""

import ctypes
import errno
import os
import resource
import signal
import sys
import time

_POLL_SECONDS = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PR_SET_DUMPABLE = 4  # linux/prctl.h
# The number of keyctl(2): syscall_64.tbl of x86, asm-generic/unistd.h for all that came later.
_KEYCTL = {"x86_64": 250}.get(os.uname().machine, 219)
_JOIN_SESSION_KEYRING = 1  # linux/keyctl.h
# Fields of /proc/PID/stat after the program's name, proc(5).
_THREADS, _RSS = 17, 21


def main(argv: list[str], folders: list[str], numbers: list[int]) -> int:
    """Returns the program's status, 128 + a signal's number if one ended it."""
    processes, memory, file, seconds, room = numbers
    libc = ctypes.CDLL(None, use_errno=True)
    # Not dumpable: what it starts cannot trace it.
    libc.prctl(_PR_SET_DUMPABLE, 0)
    if not leaves_keys(libc):
        return stopped("it cannot leave the user's keys behind")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    program = os.fork()
    if not program:
        become(argv, memory, file, processes)
    deadline = time.monotonic() + seconds
    while True:
        signal.sigtimedwait({signal.SIGCHLD}, _POLL_SECONDS)
        while True:
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if ended == program:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if not ended:
                break
        threads, resident = usage()
        if threads > processes:
            return stopped(f"it started more than {processes} processes")
        if resident > memory:
            return stopped(f"Cannot allocate memory: more than {memory >> 20} MiB")
        if seconds and time.monotonic() > deadline:
            return stopped(f"it took more than {seconds} s")
        if any(free(folder) < room for folder in folders):
            return stopped(f"No space left on device: less than {room >> 20} MiB")


def become(argv: list[str], memory: int, file: int, processes: int) -> None:
    """Becomes the program, below its limits."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: file,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: processes,
    }
    for kind, most in limits.items():
        # A limit that is lower already cannot be raised; -1 is none.
        hard = resource.getrlimit(kind)[1]
        least = most if hard < 0 else min(most, hard)
        resource.setrlimit(kind, (least, least))
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as err:
        sys.stderr.write(f"{argv[0]}: {err.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


def leaves_keys(libc: ctypes.CDLL) -> bool:
    """Joins a new session keyring; returns whether that of the user's session is out of reach."""
    # No namespace has keyrings of its own.  Where these calls are refused no key can be read.
    joined = libc.syscall(_KEYCTL, _JOIN_SESSION_KEYRING, None)
    return joined >= 0 or ctypes.get_errno() in (errno.ENOSYS, errno.EPERM)


def usage() -> tuple[int, int]:
    """Returns how many threads there are, and the bytes of memory that their processes have."""
    threads = pages = 0
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        threads += int(fields[_THREADS])
        pages += int(fields[_RSS])
    return threads, pages * _PAGE_BYTES


def free(folder: str) -> int:
    """Returns how many bytes its disk has left."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def stopped(why: str) -> int:
    """Says which limit was passed; the status for it."""
    sys.stderr.write(f"kentry sandbox: {why}\n")
    return 128 + signal.SIGKILL


if __name__ == "__main__":
    first = 7 + int(sys.argv[6])
    sys.exit(main(sys.argv[first:], sys.argv[7:first], [*map(int, sys.argv[1:6])]))
