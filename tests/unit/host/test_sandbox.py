# SPDX-License-Identifier: GPL-2.0-or-later
"""What a confined program can reach and take, as root and as another user.

Each attack is tried without the sandbox, too, where it must succeed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kentry.errors import MissingToolError
from kentry.host import sandbox
from kentry.host.process import run
from kentry.host.sandbox import confined
from tests import ROOT
from tests.builders import needs_bubblewrap
from tests.processes import gone, script
from tests.unit.kernels.sources import program


@pytest.mark.parametrize(
    ("setting", "text", "words"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1\n", "AppArmor.*bwrap a profile"),
        ("kernel/unprivileged_userns_clone", "0\n", "root alone.*unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0\n", "no user namespaces.*max_user_namespaces="),
        ("kernel/apparmor_restrict_unprivileged_userns", "0\n", "work here: No permissions.*"),
        ("kernel/another", "1\n", "work here: No permissions to create a new namespace"),
    ],
)
def test_a_policy_that_forbids_bubblewrap_is_named(
    setting: str, text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bwrap = "echo bwrap: No permissions to create a new namespace >&2; exit 1"
    script(tmp_path / "bin/bwrap", bwrap)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.delenv(sandbox.ALLOW_VARIABLE, raising=False)
    monkeypatch.setattr(sandbox, "_SETTINGS", tmp_path)
    (tmp_path / setting).parent.mkdir()
    (tmp_path / setting).write_text(text)
    sandbox.works.cache_clear()
    try:
        with pytest.raises(MissingToolError, match=words) as caught:
            sandbox.check()
    finally:
        sandbox.works.cache_clear()
    # It is installed: to install it would not help.
    assert caught.value.tools == () and sandbox.ALLOW_VARIABLE in caught.value.remedy
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingToolError) as caught:
        sandbox.check()
    sandbox.works.cache_clear()
    assert caught.value.tools == ("bwrap",)


ATTACK = """
import json, os, sys
from pathlib import Path
from kentry.host import sandbox
script, folder, confine, limits = json.loads(sys.argv[1])
argv = ["sh", "-c", script, "sh", folder]
if confine:
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    own = [Path(folder, "own")]
    argv = sandbox.confined(argv, env=env, writable=own, limits=sandbox.Limits(**limits))
os.execvp(argv[0], argv)
"""
PTRACE = """python3 - $(cat $1/pid) <<'END'
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
attach, detach, child = 16, 17, int(sys.argv[1])
if not libc.ptrace(attach, child, None, None):
    libc.waitpid(child, None, 0)
    libc.ptrace(detach, child, None, None)
    print("done")
END"""
CONNECT = """python3 - $1 <<'END'
import socket, sys
socket.socket(socket.AF_UNIX).connect({name})
print("done")
END"""
# Numbers: syscall_64.tbl of x86, asm-generic/unistd.h.  A key is in the keyring of the session.
ADD_KEY, REQUEST_KEY, KEYCTL = (
    (248, 249, 250) if os.uname().machine == "x86_64" else (217, 218, 219)
)
READ_KEY = f"""python3 - $1 <<'END'
import ctypes, sys
libc, text = ctypes.CDLL(None), ctypes.create_string_buffer(9)
key = libc.syscall({REQUEST_KEY}, b"user", sys.argv[1].encode(), None, 0)
if libc.syscall({KEYCTL}, 11, key, text, 9, 0) == 6 and text.value == b"secret":
    print("done")
END"""
# What it "types" is read by whoever reads the terminal next.
TYPE = """python3 - 3<>/dev/tty <<'END'
import fcntl, termios
fcntl.ioctl(3, termios.TIOCSTI, b"x")
print("done")
END"""
# Bytes: more than the sandbox gives, and less than a machine has.
FILLED = 300 << 20
FILL = (
    f"head -c {FILLED} /dev/zero >{{0}}/${{{{1##*/}}}}.all && echo done;"
    " rm {0}/${{1##*/}}.all"
)
# A script prints "done" where it has had its way.  $1 is a folder that all can write, whose folder
# "own" the sandbox may write, too.  Its name is that of files and sockets elsewhere.
ATTACKS = {
    "lists the files of others": "ls $1/home | grep -q id && echo done",
    "links a file of others": "ln $1/home/id $1/own/id && echo done",
    "runs a program of others": "$1/home/tool && echo done",
    "reads a file by the root of a process": "grep -q secret /proc/$(cat $1/pid)/root$1/home/id"
    " && echo done",
    "reads the memory's map of a process": "grep -q python /proc/$(cat $1/pid)/maps && echo done",
    "traces a process": PTRACE,
    "connects to an abstract socket": CONNECT.format(name="'\\0' + sys.argv[1]"),
    "connects to a socket's file": CONNECT.format(name="sys.argv[1] + '/socket'"),
    "reads a key of the session": READ_KEY,
    "types at the terminal": TYPE,
    "sees who listens": 'grep -q ":$(printf %04X $(cat $1/port)) " /proc/net/tcp && echo done',
    "sees a segment of memory": "ipcs -m -i $(cat $1/segment) | grep -q bytes && echo done",
    "sees a file in /dev/shm": "[ -e /dev/shm/${1##*/} ] && echo done",
    "sees a file in /tmp": "[ -e /tmp/${1##*/} ] && echo done",
    "sees the system's devices": "[ -e /dev/kmsg ] && echo done",
    "sees the kernel's settings of devices": "[ -d /sys/kernel ] && echo done",
    "sees what runs on the system": "ls /run | grep -q . && echo done",
    "gains rights by a program": "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo done",
    "fills /tmp": FILL.format("/tmp"),
    "fills /dev/shm": FILL.format("/dev/shm"),
    "reads a secret file": "grep -q secret $1/home/id && echo done",
    "reads the environment": 'cat /proc/*/environ 2>/dev/null | tr "\\0" "\\n" | grep -q ^SECRET'
    " && echo done",
    "writes elsewhere": "echo x >$1/other && echo done",
    "sees a process": "kill -0 $(cat $1/pid) && echo done",
    "connects": 'bash -c "exec 3<>/dev/tcp/127.0.0.1/$(cat $1/port)" && echo done',
    "makes a namespace": "unshare -U true && echo done",
    "starts processes": "for i in $(seq 200); do sleep 2 & done; sleep 1; echo done",
    "takes memory": 'for i in 1 2 3; do python3 -c "import time; x = bytearray(2**28);'
    ' time.sleep(6)" & done; python3 -c "import time; x = bytearray(2**28); time.sleep(4)";'
    " echo done",
    "takes memory at once": "python3 -c 'bytearray(600 << 20)' && echo done",
    "fills the disk": "head -c 2M /dev/zero >$1/own/file && echo done",
    "fills the disk by many files": "for i in $(seq 100); do"
    " head -c 4M /dev/zero >$1/own/$i || exit; done; sync; sleep 0.2;"
    " rm $1/own/*; echo done",
    "takes its time": "sleep 2; echo done",
}
# What root alone can do outside.
OF_ROOT = {
    "writes the system's programs": "touch /usr/kentry-attack && rm /usr/kentry-attack"
    " && echo done",
    "writes the system's settings": "touch /etc/kentry-attack && rm /etc/kentry-attack"
    " && echo done",
    "writes kentry": f"echo >{ROOT}/src/attack && rm {ROOT}/src/attack && echo done",
    "reads passwords": "grep -q root /etc/shadow && echo done",
    "makes a device": "mknod $1/own/device c 1 5 && echo done",
    "gives a file away": "touch $1/own/file && chown 12345 $1/own/file && echo done",
    "reads the kernel's log": "dmesg | grep -q . && echo done",
    "names the machine": 'hostname "$(hostname)" && echo done',
    "takes precedence": "renice -n -5 $$ && echo done",
    "changes its root": "chroot / true && echo done",
    "enters a process's namespace": "nsenter -t $(cat $1/pid) -u true && echo done",
    "makes raw packets": "python3 -c 'import socket; socket.socket(2, socket.SOCK_RAW, 1)'"
    " && echo done",
    "listens to a port of the system": "python3 -c 'import socket;"
    ' socket.create_server(("127.0.0.1", 999))\' && echo done',
    "writes through a remount": "mount -o remount,bind,rw / && echo x >$1/other && rm $1/other"
    " && echo done",
    "changes a setting": "read -r x </proc/sys/kernel/core_pattern"
    ' && echo "$x" >/proc/sys/kernel/core_pattern && echo done',
    "has a capability": "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo done",
}
# What keeps a script from it, where that is a limit.
LIMITS = {
    "starts processes": {"processes": 100},
    "takes memory": {"memory": 512 << 20},
    "takes memory at once": {"memory": 512 << 20},
    "fills the disk": {"file": 1 << 20},
    "takes its time": {"seconds": 1},
    # So much stays free, less 50 MB, that the attack's 400 MB do not fit; see attack().
    "fills the disk by many files": {"room": -50 << 20},
}
IS_ROOT = os.geteuid() == 0
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3")
CASES = [("own", attack) for attack in {**ATTACKS, **(OF_ROOT if IS_ROOT else {})}]
CASES += [("nobody", attack) for attack in ATTACKS if IS_ROOT]


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    sandbox.works.cache_clear()
    if not sandbox.works():
        monkeypatch.setenv(sandbox.ALLOW_VARIABLE, "1")
    sandbox.works.cache_clear()
    yield
    sandbox.works.cache_clear()


@contextlib.contextmanager
def files() -> Iterator[Path]:
    """One that any user can write, with what the attacks look for."""
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="kentry-test.") as name,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        folder = Path(name)
        for below in (folder, folder / "own", folder / "home"):
            below.mkdir(exist_ok=True)
            below.chmod(0o777)
        (folder / "home/id").write_text("secret\n")
        (folder / "home/id").chmod(0o666)
        script(folder / "home/tool", "exit 0")
        (folder / "port").write_text(str(server.getsockname()[1]))
        elsewhere = [Path(place, folder.name) for place in ("/tmp", "/dev/shm")]
        for file in elsewhere:
            file.touch()
        key = (b"user", str(folder).encode(), b"secret", 6, -3)
        ctypes.CDLL(None).syscall(ADD_KEY, *key)
        made = run(["ipcmk", "-M", "1", "-p", "0666"]).stdout.split()[-1]
        (folder / "segment").write_text(made)
        with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
            for one, name in ((abstract, f"\0{folder}"), (named, f"{folder}/socket")):
                one.bind(name)
                one.listen()
            (folder / "socket").chmod(0o777)
            yield folder
        run(["ipcrm", "-m", made])
        for file in elsewhere:
            file.unlink()


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    with files() as folder:
        yield folder


def attack(user: str, script: str, folder: Path, confine: bool, **limits: int) -> str:
    """What the script prints."""
    words = [*NOBODY] if user == "nobody" else [sys.executable]
    if user == "limited":
        words = ["prlimit", "--fsize=1048576", "--as=4294967296", *words]
    if limits.get("room", 0) < 0:
        limits["room"] += shutil.disk_usage(folder).free
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SECRET": "1"}
    if not confine and script.startswith("mount"):
        words[:0] = ["unshare", "--mount"]
    start = [*words, "-c", ATTACK, json.dumps([script, str(folder), confine, limits])]
    if script == TYPE:
        # A terminal of its own.
        start = ["script", "-qec", shlex.join(start), "/dev/null"]
    waits = [*words, "-uc", "print(); input()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        # It is python by now, and no longer setpriv.
        assert other.stdout and other.stdout.readline()
        (folder / "pid").write_text(str(other.pid))
        done = subprocess.run(start, env=env, capture_output=True, text=True, check=False)
        other.communicate(b"\n")
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("user", "name"), CASES)
def test_what_a_program_does_outside_it_cannot_inside(user: str, name: str, folder: Path) -> None:
    needs_bubblewrap()
    script, limits = {**ATTACKS, **OF_ROOT}[name], LIMITS.get(name, {})
    legacy = Path("/proc/sys/dev/tty/legacy_tiocsti")
    if script == TYPE and (user == "nobody" or not IS_ROOT) and legacy.read_text() == "0\n":
        pytest.skip("the kernel keeps all from typing: sysctl dev.tty.legacy_tiocsti=1")
    if name == "fills /dev/shm" and shutil.disk_usage("/dev/shm").free < FILLED:
        pytest.skip("/dev/shm holds less than 300 MB: mount -o remount,size=1G /dev/shm")
    assert attack(user, script, folder, confine=False).endswith("done\n")
    assert "done" not in attack(user, script, folder, confine=True, **limits)


def test_a_file_that_is_open_is_not_handed_on(folder: Path) -> None:
    needs_bubblewrap()
    with (folder / "home/id").open() as file:
        os.set_inheritable(file.fileno(), True)
        argv = ["bash", "-c", f"cat <&{file.fileno()}"]
        assert subprocess.run(argv, close_fds=False, capture_output=True).stdout == b"secret\n"
        file.seek(0)
        done = run(confined(argv, env={"PATH": os.defpath}), check=False)
    assert done.returncode and not done.stdout


@pytest.mark.parametrize("user", ["own", "limited"])
def test_it_writes_its_own_folder(folder: Path, user: str) -> None:
    needs_bubblewrap()
    attack(user, "echo x >$1/own/file", folder, confine=True, memory=8 << 30)
    assert (folder / "own/file").read_text() == "x\n"


@pytest.mark.slow
def test_a_limit_that_ended_it_is_said(tmp_path: Path) -> None:
    needs_bubblewrap()
    limits = sandbox.Limits(seconds=1)
    done = run(confined(["sleep", "20"], env={}, limits=limits), check=False)
    assert done.returncode == 137
    assert done.stderr == f"{sandbox.STOPPED}it took more than 1 s\n"


@pytest.mark.parametrize("confine", [True, False])
def test_its_status_words_and_environment_come_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confine: bool
) -> None:
    if not confine:
        without_bubblewrap(tmp_path, monkeypatch, "1")
    text = "yes | head -n 1 >/dev/null; echo said $A $B; echo aside >&2; exit 3"
    monkeypatch.setenv("B", "outside")
    argv = confined(["/bin/sh", "-c", text], env={"A": "a b"})
    done = run(argv, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said a b\n", "aside\n")


def test_programs_of_the_home_folder_do_not_stand_before_the_systems(tmp_path: Path) -> None:
    needs_bubblewrap()
    path = f"{program(tmp_path / 'bin', 'python3', 'a script of mine').parent}:/usr/bin:/bin"
    assert run(confined(["python3", "-c", "print(1)"], env={"PATH": path})).stdout == "1\n"


def without_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: str) -> None:
    """Puts a bubblewrap that does not work first in PATH."""
    script(tmp_path / "bin/bwrap", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv(sandbox.ALLOW_VARIABLE, allowed)


@pytest.mark.parametrize("installed", [True, False])
def test_without_bubblewrap_nothing_runs_unless_the_user_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    without_bubblewrap(tmp_path, monkeypatch, "")
    if not installed:
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError) as raised:
        confined(["make"], env={})
    assert sandbox.ALLOW_VARIABLE in raised.value.remedy
    monkeypatch.setenv(sandbox.ALLOW_VARIABLE, "1")
    assert confined(["make"], env={"A": "1"})[-4:] == ["env", "-i", "A=1", "make"]


def test_it_ends_with_kentry_however_that_ends(tmp_path: Path) -> None:
    needs_bubblewrap()
    text = (
        "import sys\n"
        "from pathlib import Path\n"
        "from kentry.host import sandbox\n"
        "from kentry.host.process import run\n"
        f"script = 'setsid sleep 1000 & readlink /proc/self/ns/pid > {tmp_path}/ns; wait'\n"
        f"run(sandbox.confined(['sh', '-c', script], env={{}}, writable=[Path('{tmp_path}')]))\n"
    )
    with subprocess.Popen([sys.executable, "-c", text]) as kentry:
        while not (tmp_path / "ns").exists() or not (tmp_path / "ns").read_text():
            assert kentry.poll() is None
        inside = (tmp_path / "ns").read_text().strip()
        everyone = map(int, filter(str.isdecimal, os.listdir("/proc")))
        pids = [pid for pid in everyone if namespace(pid) == inside]
        kentry.kill()
    assert len(pids) >= 3  # the first process, sh, sleep
    assert all(map(gone, pids))


def namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
