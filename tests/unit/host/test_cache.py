# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of the cache: whole, at their own place, or made again, whatever is there instead."""

import os
import shutil
from pathlib import Path

import pytest

from kentry.errors import UserError
from kentry.host import cache


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "cache"))


def made(name: str) -> Path:
    """A folder of the cache with a file and its manifest."""
    folder = cache.cache_dir("built") / name
    with cache.fresh_folder(folder) as fresh:
        (fresh / "image").write_text(name)
        cache.write_manifest(fresh, ["image"], {"tree": name})
    return folder


def test_what_is_in_anothers_place_is_not_read() -> None:
    one, two = made("one"), made("two")
    assert [cache.read_manifest(folder)["tree"] for folder in (one, two)] == ["one", "two"]
    shutil.rmtree(one)
    two.rename(one)
    assert cache.read_manifest(one) == {}
    first, second = (cache.cache_dir("units") / f"{name}.json" for name in ("one", "two"))
    for file in (first, second):
        cache.write_json(file, {"status": file.stem})
    second.replace(first)
    assert cache.read_json(first) == {}


def test_a_cache_of_another_name_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made("one")
    (tmp_path / "cache").rename(tmp_path / "copy")
    monkeypatch.setenv("KENTRY_CACHE", str(tmp_path / "copy"))
    assert cache.read_manifest(cache.cache_dir("built") / "one")["tree"] == "one"


@pytest.mark.parametrize(
    "content", ["", "[]", '{"status": 1}', '{"a":' + "[" * 100_000, '{"checksum": "x"}', "\xff"]
)
def test_what_nobody_wrote_is_not_read(content: str) -> None:
    file = cache.cache_dir("units") / "one.json"
    file.write_bytes(content.encode("latin-1"))
    assert cache.read_json(file) == {}


def test_what_is_no_file_of_the_cache_gives_way(tmp_path: Path) -> None:
    folder = cache.cache_dir("units")
    for name in ("one.json", "config"):
        (folder / name / "inner").mkdir(parents=True)
    cache.write_json(folder / "one.json", {"status": 1})
    assert cache.read_json(folder / "one.json") == {"status": 1}
    cache.write_atomically(folder / "config", "CONFIG_A=y\n")
    assert (folder / "config").read_text() == "CONFIG_A=y\n"
    (folder.parent / "built").write_text("a file")
    (cache.cache_dir("built") / "one").write_text("a file")
    assert cache.read_manifest(made("one"))
    # A folder of the user's does not.
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError):
        cache.write_atomically(tmp_path / "there", "text")


def test_a_place_of_the_users_has_nothing_to_do_with_the_cache(tmp_path: Path) -> None:
    def remedy(path: Path) -> str:
        with pytest.raises(UserError) as error, cache.no_space_is_an_error(path):
            raise OSError(28, "No space left on device")
        return error.value.remedy

    assert "KENTRY_CACHE" in remedy(cache.cache_dir("built") / "x")
    assert "KENTRY_CACHE" not in remedy(tmp_path / "x.json")


def test_a_pipe_is_written_to() -> None:
    reader, writer = os.pipe()
    cache.write_atomically(Path(f"/dev/fd/{writer}"), "text")
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "text"
