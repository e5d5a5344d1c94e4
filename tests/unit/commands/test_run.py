# SPDX-License-Identifier: GPL-2.0-or-later
"""kentry run and vector trace without a guest: what they ask for, print, keep; how they fail.

kentry vector stats reads what the second wrote.
"""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from kentry.boot.guest_tasks import Ending
from kentry.cli import main
from kentry.commands import run as command
from kentry.commands import userland
from kentry.errors import UserError
from kentry.host import interrupt
from kentry.results.workload import read_workload
from kentry.vector import tracing
from tests.unit.commands.conftest import COUNTED, ROWS
from tests.unit.vector.traces import save, trace_of

Called = dict[str, Any]
Capture = pytest.CaptureFixture[str]


def ran(*words: str) -> int:
    return main(["run", "debian:6.12", "--arch", "arm64", "-q", *words])


def traced(*words: str) -> int:
    return main(["vector", "trace", "debian:6.12", "--arch", "arm64", "-q", *words])


@pytest.mark.parametrize("boot", [ran, traced])
def test_a_program_with_what_it_needs(boot: Any, called: Called, here: Path) -> None:
    (here / "prog").write_text("x")
    words = ("--copy", f"{here}/prog:/opt/prog", "--packages", "bc,gawk", "--memory", "900")
    more = ("--seed", "7", "--timeout", "60", "--append", "mitigations=off")
    newest = ("--emulator", "newest")
    assert boot(*words, *more, *newest, "-o", "out", "--", "/opt/prog", "-q", "--arch") == 0
    asked, options = called["asked"], called["options"]
    assert asked.argv[-3:] == ("/opt/prog", "-q", "--arch")
    assert [copy.guest for copy in asked.copies] == ["/opt/prog"]
    assert set(asked.packages) == {"bc", "gawk"}
    assert (called["arch"], called["release"]) == ("arm64", "bookworm")
    assert called["memory"] == options.memory == 900
    assert (options.seed, options.timeout, options.append) == (7, 60.0, "mitigations=off")
    assert options.emulator == "newest"
    # Counts are those of kentry record, so is the processor.
    assert (options.cpu, options.vector_length) == ("max" if boot is ran else "", None)
    if boot is ran:
        assert read_workload(here / "out").rows == read_workload(COUNTED).rows


def test_a_workload_by_its_name(called: Called, capsys: Capture) -> None:
    assert traced("--", "shell") == 0
    assert "shell-arm64.parquet" in capsys.readouterr().out
    assert called["path"] == Path("shell-arm64.parquet")
    assert called["asked"].name == "shell"
    guest, options = called["workload"], called["options"]
    assert (guest.initramfs, guest.words) == (Path("/rootfs.cpio"), ("a=b",))
    assert guest.description["release"] == "bookworm"
    assert (options.memory, options.timeout, options.seed) == (2048, 1800.0, 1)
    assert options.emulator == "installed"
    assert traced("--json", "--", "shell") == 0
    assert json.loads(capsys.readouterr().out)["schema"].startswith("kentry/vector-statistics/")


def test_a_spec_says_the_processor_and_the_command_line(called: Called) -> None:
    spec = "debian:6.12,cpu=cortex-a76,append=nosmt"
    assert main(["run", spec, "--arch", "arm64", "-q", "--append", "a=b", "--", "true"]) == 0
    assert (called["options"].cpu, called["options"].append) == ("cortex-a76", "a=b nosmt")


def test_json_is_the_file(called: Called, capsys: Capture) -> None:
    assert ran("--json", "--", "true") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(COUNTED.read_text())


def test_the_trace_is_of_the_same_run(called: Called) -> None:
    assert ran("--trace", "x.parquet", "--", "true") == 0
    assert called["written"][-2:] == (Path("x.parquet"), "the run")


@pytest.mark.parametrize(
    ("ending", "data"),
    [
        (Ending(3, "no such file"), ("exit code 3",)),
        (Ending(127, "sh: nosuch: not found"), ("exit code 127", "--packages")),
        (Ending(137, "Killed"), ("SIGKILL", "--memory")),
        (Ending(139, "oops"), ("SIGSEGV",)),
        (Ending(None, "hanging"), ("did not end", "--timeout")),
        (Ending(4, "wget: Temporary failure in name resolution"), ("loopback", "--copy")),
        (Ending(1, "MemoryError"), ("--memory",)),
    ],
)
@pytest.mark.parametrize("boot", [ran, traced])
def test_a_program_that_fails_is_an_error_and_its_result_is_kept(
    boot: Any, called: Called, capsys: Capture, ending: Ending, data: tuple[str]
) -> None:
    called["ending"] = ending
    assert boot("-o", "kept", "--", "false") == 2
    captured = capsys.readouterr()
    assert all(word in captured.err for word in (*data, "kept", ending.output))
    if boot is ran:
        assert "exit_group" in captured.out
        assert read_workload(Path("kept"))
    else:
        assert captured.out
        assert main(["vector", "stats", "kept", "-q"]) == 0


def test_of_a_program_that_prints_garbage_a_screen_is_shown(
    called: Called, capsys: Capture
) -> None:
    called["ending"] = Ending(139, "\x0c\x9b2J" * 5000 + "x" * 5000)
    assert ran("--", "garbage") == 2
    shown = capsys.readouterr().err.splitlines()
    assert (len(shown), max(map(len, shown))) == (42, 200)
    assert all(line.isprintable() for line in shown)


def test_on_a_full_disk_what_was_counted_is_printed_and_written_where_it_can_be(
    called: Called, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def full(*words: Any) -> None:
        raise UserError("No space is left for x.")

    monkeypatch.setattr(tracing, "write_records", full)
    assert ran("--trace", "x.parquet", "-o", "x.json", "--", "true") == 2
    assert read_workload(Path("x.json"))
    monkeypatch.setattr(command, "write_workload", full)
    capsys.readouterr()
    assert ran("-o", "x.json", "--", "true") == 2
    captured = capsys.readouterr()
    assert ("exit_group" in captured.out, "No space" in captured.err) == (True, True)


def test_what_was_counted_until_the_user_interrupts_is_kept(
    called: Called, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    called["ending"] = Ending(None, "hanging")
    # As supervise() does, in the middle of the run.
    monkeypatch.setattr(userland, "build_userland", lambda *words: interrupt.put_off())
    assert ran("-o", "x.json", "--", "true") == 128 + signal.SIGINT
    captured = capsys.readouterr()
    assert ("exit_group" in captured.out, "timeout" in captured.err) == (True, False)
    assert read_workload(Path("x.json"))


def test_stats_as_text_and_json(here: Path, capsys: Capture) -> None:
    save(Path("x.parquet"), trace_of(ROWS))
    assert main(["vector", "stats", "x.parquet"]) == 0
    assert "debian:6.12" in capsys.readouterr().out
    assert main(["vector", "stats", "x.parquet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"].startswith("kentry/vector-statistics/")
    # Nothing in it is of SME.
    assert main(["vector", "stats", "x.parquet", "--unit", "sme"]) == 2


def test_a_trace_of_unknown_vector_length_needs_a_cost_table(here: Path, capsys: Capture) -> None:
    save(here / "x", trace_of(ROWS, unit={"vl": None}))
    assert main(["vector", "stats", "x", "-q"]) == 0
    assert " bits" not in capsys.readouterr().out
    assert main(["vector", "replay", "x", "-q"]) == 2
    assert "--costs" in capsys.readouterr().err
    assert main(["vector", "replay", "x", "-q", "--costs", "sve128", "--policy", "keep"]) == 0


def test_other_commands_say_what_reads_a_trace(here: Path, capsys: Capture) -> None:
    save(here / "x", trace_of(ROWS))
    assert main(["report", "x", "-o", "y", "-q"]) == 2
    assert "kentry vector stats" in capsys.readouterr().err
