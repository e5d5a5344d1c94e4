# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages from a small signed archive, whose mirror is sound, down, stale, forged or slow."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kentry.arch import Arch
from kentry.errors import FetchError, KentryError, UserError
from kentry.host import archive, fetch, mirror
from kentry.host.cache import read_json, write_json
from kentry.kernels import debian
from kentry.kernels.kernel import Kernel
from kentry.kernels.resolve import resolve
from kentry.kernels.spec import parse
from tests.unit.host import mirrors
from tests.unit.host.mirrors import SUITE, Server, date, serving
from tests.unit.kernels import fakes
from tests.unit.kernels.conftest import Said

SAID = Said()

# Each runs gpg, or waits for a server.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with two throwaway keys: good.gpg signs the archive, wrong.gpg does not."""
    for program in ("gpg", "gpgv"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: apt-get install gpg gpgv")
    folder = tmp_path_factory.mktemp("keys")
    folder.chmod(0o700)
    for name in ("good", "wrong"):
        mirrors.gpg(folder, "--passphrase", "", "--quick-gen-key", f"{name}@example.org", "ed25519")
        mirrors.gpg(folder, "--output", f"{folder}/{name}.gpg", "--export", f"{name}@example.org")
    yield folder
    subprocess.run(["gpgconf", "--homedir", str(folder), "--kill", "all"], check=False)


@pytest.fixture
def made(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> mirrors.Archive:
    made = mirrors.Archive(tmp_path / "archive", keys)
    made.add_kernel("6.1.99-1")
    made.add_kernel("6.1.170-3")
    made.publish()
    monkeypatch.delenv("KENTRY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(mirror, "_APT", tmp_path / "apt")
    monkeypatch.setenv(mirror.KEYRING_VARIABLE, str(keys / "good.gpg"))
    monkeypatch.setattr(fetch, "_PAUSES_SECONDS", (0.01, 0.01))
    return made


@pytest.fixture
def server(made: mirrors.Archive, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(made.folder) as server:
        monkeypatch.setenv(mirror.MIRROR_VARIABLE, server.url)
        yield server


def load(version: str, arch: Arch = fakes.ARM64) -> Kernel:
    return resolve(f"debian:{version}", arch, SAID)


def bookworm(arch: str = "arm64") -> archive.Archive:
    return archive.Archive(arch, archive.RELEASES[0])


def expire_lists(seconds: float = 3600) -> None:
    """As if the lists were fetched an hour ago: old enough to be fetched again."""
    for release in archive.RELEASES:
        path = archive.Archive("arm64", release).folder / "lists.json"
        if path.exists():
            write_json(path, {**read_json(path), "time": time.time() - seconds})


def refused(version: str = "6.1") -> KentryError:
    """The error of a kernel that cannot be had: a sentence, a remedy, and status 2."""
    with pytest.raises(KentryError) as raised:
        load(version)
    assert raised.value.remedy and raised.value.exit_code == 2
    assert isinstance(raised.value, FetchError)
    return raised.value


def test_the_newest_package_becomes_a_kernel(server: Server, tmp_path: Path) -> None:
    kernel = load("6.1")
    assert kernel.image.read_bytes() == fakes.image()
    assert kernel.spec == "debian:6.1"
    assert kernel.origin["package"] == "linux-image-6.1.170-arm64"
    assert kernel.origin["version"] == "6.1.170-3"
    assert kernel.origin["suite"] == SUITE
    # The packages are large, and what is in them is kept.
    assert list((tmp_path / "cache").rglob("*.deb*")) == []


def test_all_versions_are_listed_oldest_first(made: mirrors.Archive, server: Server) -> None:
    made.add_kernel("6.12.1-1")
    made.publish()
    found = debian.every_version(parse("debian:6.1"), fakes.ARM64, SAID)
    assert found == ["debian:6.1.99-1", "debian:6.1.170-3"]
    with pytest.raises(UserError, match="kernel 5.4"):
        debian.every_version(parse("debian:5.4"), fakes.ARM64, SAID)


def test_without_a_network_the_cache_serves(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load("6.1.170-3")
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, "http://127.0.0.1:9/debian")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "/nonexistent")
        assert load("6.1.170-3") == first
    assert "127.0.0.1:9" in refused("6.1.99-1").sentence
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, "http://a-host.invalid/debian")
    assert "no such host" in refused("6.1.99-1").sentence


def test_a_version_that_is_not_there_lists_those_that_are(server: Server) -> None:
    with pytest.raises(UserError) as raised:
        load("6.12")
    assert "6.12 for arm64" in raised.value.sentence
    assert "6.1.170-3" in raised.value.remedy
    assert "6.1.99-1 6.1.170-3" in raised.value.detail
    with pytest.raises(UserError, match=r"'rt'.*arm64"):
        load("6.1,flavour=rt")


def test_an_architecture_without_kernels(server: Server) -> None:
    # riscv64's list is there, and empty; the other suites are not there at all.
    with pytest.raises(FetchError, match="404"):
        load("6.1", fakes.RISCV64)


def tamper(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


def test_a_tampered_package_is_refused(
    made: mirrors.Archive, server: Server, tmp_path: Path
) -> None:
    tamper(made.folder / made.packages[-1]["Filename"])
    assert "SHA-256" in refused().sentence
    assert list((tmp_path / "cache/kentry/kernels").glob("*/vmlinuz*")) == []
    assert load("6.1.99").release == fakes.RELEASE


def test_a_list_that_was_tampered_with_is_refused(made: mirrors.Archive, server: Server) -> None:
    tamper(made.folder / f"dists/{SUITE}/main/binary-arm64/Packages.xz")
    assert "SHA-256" in refused().sentence


@pytest.mark.parametrize(
    ("says", "word"),
    [
        ({"Valid_Until": date(-600)}, "stale"),
        ({"age": -3600}, "future"),
        ({"Codename": "trixie"}, "trixie"),
        ({"Date": "yesterday"}, "date"),
        ({"key": "wrong"}, "NO_PUBKEY"),
    ],
)
def test_a_signed_file_that_cannot_be_relied_on(
    made: mirrors.Archive, server: Server, tmp_path: Path, says: dict[str, Any], word: str
) -> None:
    made.publish(**says)
    assert word in refused().sentence
    # Where this machine's apt does not look at dates, kentry does not.
    (tmp_path / "apt/apt.conf.d").mkdir(parents=True)
    (tmp_path / "apt/apt.conf.d/99").write_text('Acquire::Check-Valid-Until "false";\n')
    if word in ("stale", "future"):
        assert load("6.1").origin["version"] == "6.1.170-3"
    else:
        assert word in refused().sentence


def test_a_signed_file_older_than_one_before_is_refused(
    made: mirrors.Archive, server: Server
) -> None:
    load("6.1")
    made.add_kernel("6.1.180-1")
    made.publish(age=7200)
    expire_lists()
    assert bookworm().refresh(SAID)
    assert "older than" in bookworm().problems[0]
    # What was there stays.
    assert load("6.1").origin["version"] == "6.1.170-3"
    assert bookworm().candidates(".*180.*", SAID) == []


def test_only_what_is_signed_is_read(made: mirrors.Archive, server: Server) -> None:
    path = made.folder / f"dists/{SUITE}/InRelease"
    good = path.read_text()
    path.write_text(good.replace(made.packages[0]["SHA256"][:4], "0000").replace("main", "niam"))
    assert "BADSIG" in refused().sentence
    path.write_text((path.parent / "Release").read_text())
    assert "not signed" in refused().sentence or "NODATA" in refused().sentence
    path.unlink()
    assert "404" in refused().sentence


@pytest.mark.parametrize("forms", [{".gz": gzip.compress}, {"": bytes}])
def test_lists_of_other_forms(
    made: mirrors.Archive, server: Server, forms: dict[str, object]
) -> None:
    shutil.rmtree(made.folder / "dists")
    made.forms = forms  # type: ignore[assignment]
    made.publish()
    assert load("6.1").origin["version"] == "6.1.170-3"


def test_lists_are_asked_for_by_their_hash(made: mirrors.Archive, server: Server) -> None:
    made.publish(Acquire_By_Hash="yes")
    assert load("6.1").origin["version"] == "6.1.170-3"
    assert not any(path.endswith("Packages.xz") for path, _ in server.asked)


def test_a_copied_cache_is_used_where_it_is(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load("6.1")
    (tmp_path / "cache").rename(tmp_path / "moved")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "moved"))
    server.asked.clear()
    assert load("6.1").image_sha256 == first.image_sha256
    assert server.asked == []
    assert not (tmp_path / "cache").exists()


def test_damaged_lists_are_fetched_again(server: Server) -> None:
    wanted = bookworm().candidates("linux-image-.*", SAID)
    assert len(wanted) == 2
    for path in bookworm().folder.iterdir():
        path.write_bytes(b"\xff\0garbage\n" * 100)
        assert bookworm().candidates("linux-image-.*", SAID) == wanted
        path.unlink()
        assert bookworm().candidates("linux-image-.*", SAID) == wanted
    # Another's list, whole as it is, in its place.
    lists = [bookworm().folder / name for name in bookworm().release.suites]
    for path in filter(Path.exists, lists):
        path.write_bytes(zstandard.ZstdCompressor().compress(b""))
        assert bookworm().candidates("linux-image-.*", SAID) == wanted


def test_a_cache_that_may_not_be_written_is_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load("6.1")

    def acquire(*words: object, **options: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    access = os.access
    monkeypatch.setattr("filelock.FileLock.acquire", acquire)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    monkeypatch.setattr("kentry.host.archive.write_json", acquire)
    monkeypatch.setattr("kentry.host.cache.write_json", acquire)
    expire_lists(30 * 3600)
    assert load("6.1") == first


def test_a_mirror_in_the_middle_of_an_update_has_whole_lists_under_the_other_name(
    made: mirrors.Archive, server: Server
) -> None:
    suites = made.folder / "dists"
    shutil.copytree(suites / SUITE, suites / "oldstable")
    tamper(suites / SUITE / "main/binary-arm64/Packages.xz")
    kernel = load("6.1")
    assert kernel.origin["version"] == "6.1.170-3"
    assert kernel.origin["suite"] == SUITE
    assert "SHA-256" in kernel.origin["note"]


@pytest.mark.parametrize(
    ("age", "wanted", "has_gone", "version"),
    [
        (0, "6.1", False, "6.1.170-3"),
        (25 * 3600, "6.1", False, "6.1.180-1"),
        # Younger ones, where they lack what is wanted, or the mirror has it no more.
        (3600, "6.1.180", False, "6.1.180-1"),
        (3600, "6.1", True, "6.1.180-1"),
    ],
)
def test_which_lists_are_fetched_again(
    made: mirrors.Archive, server: Server, age: float, wanted: str, has_gone: bool, version: str
) -> None:
    assert len(bookworm().candidates("linux-image-.*", SAID)) == 2
    if has_gone:
        (made.folder / made.packages.pop()["Filename"]).unlink()
    made.add_kernel("6.1.180-1")
    made.publish()
    expire_lists(age)
    assert load(wanted).origin["version"] == version


def test_a_mirror_that_has_gone_leaves_the_lists_usable(
    made: mirrors.Archive, server: Server
) -> None:
    first = load("6.1")
    shutil.rmtree(made.folder)
    expire_lists(25 * 3600)
    assert load("6.1").image == first.image
    assert "404" in bookworm().problems[0]


def test_a_list_that_has_not_changed_is_not_fetched_again(
    made: mirrors.Archive, server: Server
) -> None:
    load("6.1")
    expire_lists(25 * 3600)
    server.asked.clear()
    load("6.1")
    assert f"/dists/{SUITE}/InRelease" in {path for path, _ in server.asked}
    assert not any("Packages" in path for path, _ in server.asked)


def test_another_mirror_has_other_lists(
    server: Server, tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load("6.1")
    other = mirrors.Archive(tmp_path / "other", keys)
    other.add_kernel("6.1.50-1")
    # Also an older one: each mirror has its own past.
    other.publish(age=7200)
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, f"file://{other.folder}")
    assert load("6.1").origin["version"] == "6.1.50-1"


def test_candidates_say_what_the_lists_say(made: mirrors.Archive, server: Server) -> None:
    (found,) = bookworm().candidates(r"linux-image-6\.1\.99-.*", SAID)
    assert (found.package, found.version) == ("linux-image-6.1.99-arm64", "6.1.99-1")
    (path,) = made.folder.glob("pool/*_6.1.99-1_*")
    assert (found.size, found.suite, found.arch) == (path.stat().st_size, SUITE, "arm64")
    assert bookworm().candidates("linux-imag", SAID) == []
    newest, _ = bookworm().candidates("linux-image-.*", SAID)
    assert newest.version == "6.1.170-3"


@pytest.fixture
def needs(made: mirrors.Archive) -> mirrors.Archive:
    made.add("top", Depends="base (>= 1:2), a-name | first", Pre_Depends="tool:any")
    made.add("base", "1:2+x~1")
    made.add("tool", "1", Depends="second | first")
    made.add("second", "1", Provides="a-name (= 3)")
    made.add("first", "1")
    made.add("old", Depends="base (<< 1:2)")
    made.add("exact", Depends="a-name (>= 2), only-backports")
    made.publish()
    made.packages = []
    made.add("first", "2~bpo")
    made.add("only-backports", "1", Depends="first")
    made.publish(f"{SUITE}-backports")
    return made


@pytest.mark.parametrize(
    ("names", "suite", "chosen"),
    [
        (["top"], "", "base 1:2+x~1, second 1, tool 1, top 1"),
        (["first", "top"], "", "base 1:2+x~1, first 1, tool 1, top 1"),
        (["exact"], "", "exact 1, first 1, only-backports 1, second 1"),
        (["exact"], f"{SUITE}-backports", "exact 1, first 2~bpo, only-backports 1, second 1"),
        (["a-name"], "", "second 1"),
        (["base", "base"], "", "base 1:2+x~1"),
    ],
)
def test_a_closure(
    needs: mirrors.Archive, server: Server, names: list[str], suite: str, chosen: str
) -> None:
    SAID.clear()
    files = bookworm().download_closure(names, SAID, suite)
    assert ", ".join(sorted(f"{it.package} {it.version}" for it in files.values())) == chosen
    assert all(path.read_bytes().startswith(b"!<arch>") for path in files)
    # They are there for the next that needs them.
    server.asked.clear()
    assert bookworm().download_closure(names, SAID, suite) == files
    assert server.asked == []


def test_one_connection_brings_all_packages(needs: mirrors.Archive, server: Server) -> None:
    files = bookworm().download_closure(["top", "exact"], SAID)
    assert len(files) == 7
    # What the archive lacks, some suites, ends a connection.
    missing = [path for path, _ in server.asked if not (server.folder / path[1:]).exists()]
    assert server.connections <= 1 + len(missing) < len(server.asked) - len(files)


def test_a_closure_that_cannot_be_had(needs: mirrors.Archive, server: Server) -> None:
    with pytest.raises(UserError, match="'absent'"):
        bookworm().download_closure(["absent"], SAID)
    with pytest.raises(FetchError, match="old needs base"):
        bookworm().download_closure(["old"], SAID)
    shutil.rmtree(needs.folder / "dists")
    with pytest.raises(FetchError, match="404"):
        archive.Archive("arm64", archive.RELEASES[1]).download_closure(["top"], SAID)


def test_what_breaks_off_is_resumed(made: mirrors.Archive, server: Server) -> None:
    size = int(made.packages[-1]["Size"])
    server.answers[".deb"] = [mirrors.cut]
    assert load("6.1").origin["version"] == "6.1.170-3"
    asked = [span for path, span in server.asked if path.endswith("170-3_arm64.deb")]
    assert asked == ["", f"bytes={size // 2}-"]


def test_what_another_run_began_is_gone_on_with(made: mirrors.Archive, server: Server) -> None:
    server.answers[".deb"] = [mirrors.cut] * 3
    server.answers["InRelease"] = [mirrors.failing(503)]
    assert "broke off" in refused().sentence
    server.answers[".deb"] = [mirrors.whole]  # it knows no ranges: all comes again
    assert load("6.1").origin["version"] == "6.1.170-3"
    # What was begun may be of another file.
    server.answers[".deb"] = [mirrors.cut] * 3
    assert "broke off" in refused("6.1.99").sentence
    (part,) = bookworm().folder.glob("packages/*.part")
    part.write_bytes(b"garbage")
    assert load("6.1.99").origin["version"] == "6.1.99-1"
    assert list(bookworm().folder.glob("packages/*")) == []


def test_a_slow_mirror_ends(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_PATIENCE_SECONDS", 0.2)
    server.answers["InRelease"] = [mirrors.slow] * 9
    assert "too slow" in refused().sentence
    # It is not asked for other suites, nor again.
    assert [path for path, _ in server.asked if SUITE in path] == [f"/dists/{SUITE}/InRelease"] * 3


@pytest.mark.parametrize("end", [".deb", "Packages.xz"])
def test_a_file_that_is_too_long_is_not_read_to_its_end(server: Server, end: str) -> None:
    server.answers[end] = [mirrors.longer] * 9
    assert "more than the" in refused().sentence


def test_a_proxy(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv(mirror.MIRROR_VARIABLE, "http://a-host.invalid")
    assert load("6.1").origin["version"] == "6.1.170-3"
    assert all(path.startswith("http://a-host.invalid/") for path, _ in server.asked)
    # Without the variable apt's own holds.
    monkeypatch.delenv("http_proxy")
    assert "a-host.invalid" in refused("6.1.99").sentence
    (tmp_path / "apt").mkdir()
    (tmp_path / "apt/apt.conf").write_text(f'Acquire {{ http::Proxy "{server.url}"; }}\n')
    assert load("6.1.99").origin["version"] == "6.1.99-1"
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    expire_lists(25 * 3600)
    assert load("6.1").origin["version"] == "6.1.170-3"
    assert "127.0.0.1:9" in bookworm().problems[0] or "refused" in bookworm().problems[0]


def test_progress_has_a_fraction_and_the_size() -> None:
    said: list[tuple[float | None, str]] = []
    meter = fetch.Meter(lambda fraction, text: said.append((fraction, text)), "x", 4_000_000)
    for count in (1_000_000, -500_000, 1_500_000):
        meter.add(count)
    assert said[0] == (0.0, "fetching x: 0.0 of 4.0 MB")
    assert said[-1] == (0.5, "fetching x: 2.0 of 4.0 MB")


def test_two_at_once_do_not_meet(server: Server) -> None:
    script = (
        "from kentry.kernels.resolve import resolve; from kentry.arch import find_arch\n"
        "print(resolve('debian:6.1', find_arch('arm64'), lambda *_: None).image)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(archive.__file__).parents[2])}
    argv = [sys.executable, "-c", script]
    both = [
        subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    out = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], out
    assert out[0][0] == out[1][0]
