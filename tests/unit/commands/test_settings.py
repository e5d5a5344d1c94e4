# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user sets once: the command line goes before the environment, and that before the file."""

from pathlib import Path

import pytest

from kentry.arch import ARCHES, host_arch
from kentry.cli import main
from kentry.commands.options import ResultOptions
from kentry.commands.record import Options
from kentry.commands.settings import default_arch, default_cpu, settings
from kentry.errors import EXIT_DONE, EXIT_MISTAKE, UserError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("KENTRY_MIRROR", raising=False)
    return tmp_path / "kentry.toml"


def test_without_a_file_nothing_is_set(file: Path) -> None:
    assert set(settings().__struct_fields__) == {"mirror", "arch", "cpu", "tree", "color"}
    assert not any(getattr(settings(), key) for key in settings().__struct_fields__)
    assert (default_arch(), default_cpu(ARCHES["arm64"])) == (host_arch(), "max")


@pytest.mark.parametrize("home", ["XDG_CONFIG_HOME", "HOME"])
def test_the_file_is_where_other_programs_have_theirs(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv(home, str(tmp_path))
    folder = tmp_path / ".config" if home == "HOME" else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / "kentry.toml").write_text('arch = "riscv64"\n')
    assert default_arch() == ARCHES["riscv64"]


def test_a_kernel_is_measured_as_the_settings_say(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('arch = "riscv64"\ncpu = "rpi5"\n')
    plain, arm = Options(spec="debian:6.12"), Options(spec="debian:6.12", arch="arm64")
    assert plain.find_arch() == ARCHES["riscv64"]
    assert arm.find_arch() == ARCHES["arm64"]
    # The processor of another architecture is not this one's.
    assert plain.unit("debian:6.12").measurement.cpu == "max"
    assert arm.unit("debian:6.12").measurement.cpu == "rpi5"
    assert arm.unit("debian:6.12,cpu=cortex-a55").measurement.cpu == "cortex-a55"
    named = Options(spec="debian:6.12", arch="arm64", cpu="max")
    assert named.unit("debian:6.12").measurement.cpu == "max"
    monkeypatch.setenv("KENTRY_ARCH", "x86_64")
    monkeypatch.setenv("KENTRY_CPU", "skylake")
    assert plain.unit("debian:6.12").measurement.cpu == "skylake"


@pytest.mark.parametrize(
    ("words", "environment", "color", "mirror"),
    [
        ([], {}, "always", "http://a/debian"),
        (["--color", "never"], {}, "never", "http://a/debian"),
        ([], {"NO_COLOR": "1"}, "auto", "http://a/debian"),
        ([], {"NO_COLOR": "1", "KENTRY_COLOR": "always"}, "always", "http://a/debian"),
        ([], {"KENTRY_MIRROR": "http://b/debian"}, "always", "http://b/debian"),
        ([], {"KENTRY_COLOR": ""}, "always", "http://a/debian"),
    ],
)
def test_the_nearest_setting_holds(
    words: list[str],
    environment: dict[str, str],
    color: str,
    mirror: str,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file.write_text('color = "always"\nmirror = "http://a/debian"\n')
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    seen: list[tuple[str, str]] = []

    def run(options: ResultOptions) -> int:
        import os

        seen.append((options.color, os.environ.pop("KENTRY_MIRROR")))
        return EXIT_DONE

    monkeypatch.setattr("kentry.commands.doctor.run", run)
    # What the file says is never refused, as --color is beside --json.
    assert main(["doctor", *words, *([] if words else ["--json"])]) == EXIT_DONE
    assert seen == [(color, mirror)]


def test_commits_are_those_of_the_users_tree(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f'tree = "{tmp_path / "my-linux"}"\n')
    for command in (["log", "v1..v2"], ["bisect", "--good=a", "--bad=b"], ["series", "v1..v2"]):
        assert main([*command, "-q"]) == EXIT_MISTAKE
        assert "my-linux" in capsys.readouterr().err
    assert main(["log", "v1..v2", "-q", "--tree", "/nonexistent/other"]) == EXIT_MISTAKE
    assert "my-linux" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "datum"),
    [
        ('mirorr = "http://a"', "'mirorr'. Did you mean mirror?"),
        ('mirror = "debian"', "mirror = 'debian', which is not a URL"),
        ('mirror = "http://a http://b http://c"', "which is not a URL"),
        ('arch = "amr64"', "Did you mean arm64?"),
        ('cpu = "cortx-a76"', "Did you mean cortex-a76?"),
        ("arch = 5", "arch = '5', which is not a text"),
        ("[tree]", "which is not a text"),
        ('tree = ""', "which is not a text"),
        ('color = "awlays"', "Did you mean always?"),
        ('arch = "arm64', "is not a file of settings"),
        (f"color = 0x{'f' * 5000}", "is not a file of settings"),
        (f"{'a.' * 20_000}a = 1", "more than 100 dots"),
        (f"# {'x' * (1 << 20)}", "larger than 1 MiB"),
        ('arch = "arm64"\narch = "arm64"', "is not a file of settings"),
    ],
)
def test_a_setting_that_will_not_do(
    text: str, datum: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert main(["doctor"]) == EXIT_MISTAKE
    captured = capsys.readouterr()
    assert captured.out == ""
    sentence, remedy = captured.err.splitlines()
    assert str(file) in sentence and datum in sentence and "The settings are" in remedy


def test_a_bad_variable_is_named_apart(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTRY_ARCH", "vax")
    with pytest.raises(UserError, match="environment says arch = 'vax'"):
        settings()


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    file.mkdir()
    with pytest.raises(UserError, match=str(file)):
        settings()
