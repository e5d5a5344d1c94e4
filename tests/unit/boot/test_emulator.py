# SPDX-License-Identifier: GPL-2.0-or-later
"""Which QEMU is taken, with fake ones that print what -help prints; its command line."""

import re
from pathlib import Path

import pytest

from kentry.arch import ARCHES, Arch, find_arch, host_arch
from kentry.arch.processors import Processor
from kentry.boot import emulator as boot_emulator
from kentry.boot.emulator import (
    ACCELERATORS,
    ICOUNT,
    Emulator,
    Guest,
    check_append,
    emulator_since,
    find_emulator,
    kernel_words,
    plugin_argv,
)
from kentry.errors import MachineError, MissingToolError, UserError
from kentry.host.archive import RELEASES, Archive, Candidate
from kentry.host.cache import write_manifest
from tests.processes import script
from tests.unit.kernels import fakes

ARCH = find_arch("riscv64")
GOOD = (
    "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nusage:\n-plugin [file=]<file>\n"
)


def make_qemu(folder: Path, text: str, status: int = 0) -> Path:
    return script(folder / ARCH.qemu, f"cat <<'END'\n{text}END\nexit {status}")


def make_private(root: Path) -> Path:
    for name in ("share/qemu", "lib/a-b-c/qemu"):
        (root / "usr" / name).mkdir(parents=True)
    make_qemu(root / "usr/bin", GOOD)
    script(loader_of(root), '[ "$1" = --library-path ] && shift 2 && exec "$@"')
    write_manifest(root, [])
    return root


def loader_of(root: Path) -> Path:
    return root / "usr/lib/a-b-c/ld-linux-x.so.1"


def test_installed_is_the_one_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = make_qemu(tmp_path, GOOD)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = find_emulator(ARCH)
    assert found.argv == (str(program),)
    assert found.version == "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"
    assert found.numbers == (7, 2, 22)
    assert found.env == {}
    other = make_qemu(tmp_path / "other", GOOD.replace("7.2.22", "11.1.3"))
    assert find_emulator(ARCH, str(other)).numbers == (11, 1, 3)


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        (GOOD.replace("7.2.22", "7.1.9"), 0, "QEMU 7.1.9 is too old"),
        (GOOD.replace("-plugin", "-nothing"), 0, "was built without plugins"),
        ("hello\n", 0, "is not a QEMU"),
        (GOOD, 1, "does not run"),
    ],
)
def test_one_that_will_not_do(text: str, status: int, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match=sentence) as caught:
        find_emulator(ARCH, str(make_qemu(tmp_path, text, status)))
    assert caught.value.remedy


def test_one_that_says_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot_emulator, "_HELP_SECONDS", 0.1)
    with pytest.raises(MissingToolError, match="0.1 s"):
        find_emulator(ARCH, str(script(tmp_path / "qemu", "kill -STOP $$")))


def test_a_version_that_is_known_to_fail_is_refused_where_it_does(tmp_path: Path) -> None:
    arm64 = find_arch("arm64")
    for arch, version in ((arm64, "8.2.2"), (arm64, "8.2.50")):
        program = make_qemu(tmp_path / version, GOOD.replace("7.2.22", version))
        with pytest.raises(MissingToolError, match=f"QEMU {version} will not do") as caught:
            find_emulator(arch, str(program))
        assert "--emulator" in caught.value.remedy and not caught.value.tools
        assert find_emulator(ARCH, str(program)).numbers[:2] == (8, 2)
    for version in ("8.1.5", "9.0.0"):
        program = make_qemu(tmp_path / version, GOOD.replace("7.2.22", version))
        assert find_emulator(arm64, str(program)).version.startswith(version)


def test_one_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError) as caught:
        find_emulator(ARCH)
    assert caught.value.tools == (ARCH.qemu,)
    assert "qemu-system-riscv" in caught.value.remedy or "qemu-system-misc" in caught.value.remedy
    (tmp_path / "file").write_text("")
    for name in ("file", "none"):
        with pytest.raises(MissingToolError, match="is not a program"):
            find_emulator(ARCH, str(tmp_path / name))
    with pytest.raises(UserError, match="installed, backports, newest"):
        find_emulator(ARCH, "latest")


@pytest.fixture
def copies(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private copies are; this machine runs the oldest release that kentry knows."""
    release = {"VERSION_CODENAME": RELEASES[0].name}
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: release)
    return cache / "emulators"


NEWEST_COPY = f"{RELEASES[-1].name}-whole-{host_arch().debian}"


@pytest.mark.parametrize(("choice", "release"), [("backports", 0), ("newest", -1)])
def test_a_copy_brings_its_own_loader(copies: Path, choice: str, release: int) -> None:
    root = make_private(copies / f"{RELEASES[release].name}-whole-{host_arch().debian}")
    loader = loader_of(root)
    emulator = find_emulator(ARCH, choice)
    program = str(root / "usr/bin" / ARCH.qemu)
    assert emulator.argv[:4] == (str(loader), "--library-path", str(loader.parent), program)
    assert emulator.env == {"QEMU_MODULE_DIR": str(root / "usr/lib/a-b-c/qemu")}


def test_a_damaged_copy_says_what_to_delete(copies: Path) -> None:
    make_qemu(copies / NEWEST_COPY / "usr/bin", GOOD)
    write_manifest(copies / NEWEST_COPY, [])
    with pytest.raises(MissingToolError, match="is damaged") as caught:
        find_emulator(ARCH, "newest")
    assert "Delete" in caught.value.remedy


def test_a_copy_is_unpacked_once_with_usr_merged(
    copies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = make_private(tmp_path / "made") / "usr/bin" / ARCH.qemu
    loader = loader_of(tmp_path / "made")
    files = {
        f"./usr/bin/{ARCH.qemu}": program.read_bytes(),
        "./lib/a-b-c/ld-linux-x.so.1": loader.read_bytes(),
        "./usr/lib/a-b-c/qemu/a-module": b"",
    }
    suites = []

    def fetched(self: Archive, names: object, update: object, suite: str) -> dict[Path, Candidate]:
        suites.append(suite)
        return {fakes.deb(tmp_path / "a.deb", files): Candidate("a", "1", "", 1, suite, "all")}

    monkeypatch.setattr(Archive, "download_closure", fetched)
    for _ in range(2):
        assert find_emulator(ARCH, "newest").numbers == (7, 2, 22)
    assert suites == [f"{RELEASES[-1].name}-backports"]
    # What is not as it was unpacked is unpacked again; a process looks once.
    kept = copies / NEWEST_COPY / "usr/bin" / ARCH.qemu
    kept.write_text(GOOD.replace("7.2.22", "9.2.0"))
    boot_emulator._is_whole.cache_clear()
    assert find_emulator(ARCH, "newest").numbers == (7, 2, 22)
    assert suites == [f"{RELEASES[-1].name}-backports"] * 2
    assert not (tmp_path / "a.deb").exists()


def test_a_private_copy_stands_in_for_an_older_installed_one(
    copies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    # No other copy is fetched.
    monkeypatch.setattr(Archive, "download_closure", lambda *words: pytest.fail("fetched"))
    program = make_qemu(tmp_path, GOOD)
    host = make_private(copies / f"{RELEASES[0].name}-whole-{host_arch().debian}")
    whole = make_private(copies / NEWEST_COPY)

    def found(oldest: tuple[int, ...], choice: str = "installed") -> str:
        return emulator_since(ARCH, choice, oldest, "has no a-cpu").argv[0]

    assert found((7, 2)) == found((7, 2, 22)) == str(program)
    make_qemu(host / "usr/bin", GOOD.replace("7.2.22", "8.2.1"))
    make_qemu(whole / "usr/bin", GOOD.replace("7.2.22", "10.0.2"))
    assert found((8, 2)) == str(loader_of(host))
    # The backports have none that is new enough.
    assert found((9, 0)) == str(loader_of(whole))
    with pytest.raises(MissingToolError, match=r"10.0.2.* has no a-cpu: QEMU 11.0 is"):
        found((11, 0))
    # What a user chose is not replaced.
    for choice, version, newer in (
        (str(program), "7.2.22", "backports or newest or FILE"),
        ("backports", "8.2.1", "newest or FILE"),
        ("newest", "10.0.2", "FILE"),
    ):
        with pytest.raises(MissingToolError, match=rf"QEMU {version}.* has no a-cpu") as caught:
            found((11, 0), choice)
        assert caught.value.remedy == f"Choose --emulator {newer}."
    # None is installed; the fake copies need cat.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cat").symlink_to("/bin/cat")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert found((7, 2)) == str(loader_of(host))


OURS = r"""panic=5 quiet debug loglevel=7 ignore_loglevel console=ttyS1 earlycon nokaslr kaslr
randomize-kstack-offset=on dhash_entries=1 mem=1G memmap=1G$1G init=/bin/sh rdinit=/bin/sh initrd=a
noinitrd root=/dev/vda maxcpus=1 nr_cpus=1 nosmp --"""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        *((f"pti=on {word} n=1", f"'{word}' cannot be on the kernel's") for word in OURS.split()),
        ("panic=5", "depends on its own panic."),
        ('dyndbg="file a +p"', "printable words without quotes"),
        ("a\x1bb", "printable words without quotes"),
    ],
)
def test_words_that_would_break_the_measurement(words: str, sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)) as caught:
        check_append(words)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "words", ["", "mitigations=off", "pti=on nospectre_bhb", "spectre_v2=off kpti=1 audit=0"]
)
def test_other_words_follow_kentrys_own(words: str) -> None:
    check_append(words)
    processor = Processor(model="a-cpu", words=("pti=off",))
    own = kernel_words(ARCH, processor)
    assert own[-1] == "pti=off"
    assert kernel_words(ARCH, processor, more=words.split()) == [*own, *words.split()]


EMULATOR = Emulator(("/usr/bin/qemu", "-L", "/firmware"), "10.0.2", (10, 0, 2))


@pytest.mark.parametrize("arch", ARCHES.values(), ids=lambda arch: arch.name)
def test_the_guest_is_shut_in_and_every_run_is_alike(arch: Arch) -> None:
    argv = Guest(EMULATOR, arch, Processor(model="a-cpu"), 2048, 7).argv(file_limit=3)
    words = " ".join(argv)
    for needed in (
        f"--as={(2048 + 4096) << 20}",
        f"--fsize={3 << 20} --core=0 -- /usr/bin/qemu -L /firmware",
        f"-machine {arch.machine} -cpu a-cpu",
        "-accel tcg,thread=single -smp 1 -m 2048M -nodefaults",
        "-icount shift=0,sleep=off -seed 7 -rtc base=2020-01-01T00:00:00,clock=vm",
        "-nic none -monitor none",
        "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    ):
        assert needed in words
    # What a recording says of it.
    assert ACCELERATORS[ICOUNT] == "tcg, one thread, -icount shift=0,sleep=off"
    assert not {"-kernel", "-initrd", "-append", "-plugin"} & set(argv)


def test_a_comma_in_a_path_is_not_an_option() -> None:
    argv = plugin_argv(Path("/a,b/x.so"), find_arch("arm64"), ["out=/c,d", "check=on"])
    assert argv == ["-plugin", "/a,,b/x.so,out=/c,,d,check=on"]
    # Firmware is named where there is some.
    argv = plugin_argv(Path("/x.so"), find_arch("riscv64"), [])
    assert argv == ["-plugin", "/x.so,firmware=80000000-80200000"]


def test_a_limit_of_memory_is_named_before_qemu_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("resource.getrlimit", lambda which: (2 << 30, 2 << 30))
    guest = Guest(EMULATOR, find_arch("arm64"), Processor(model="max"), 512)
    with pytest.raises(MachineError, match="4608 MiB.*2048 MiB"):
        guest.argv()
    monkeypatch.setattr("resource.getrlimit", lambda which: (-1, -1))
    assert guest.argv()
