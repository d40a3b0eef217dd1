"""What a command's signature makes of its words, and what help and completion tell of it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest

from barnabas.cli.app import ROOT, run
from barnabas.cli.command import Argument, Command, CommandGroup, Option
from barnabas.cli.completion import candidates
from barnabas.cli.options import HERE, Reach
from barnabas.cli.output import CommandError, UsageError, print_json, print_table


class Colour(StrEnum):
    red = "red"
    blue = "blue"


def paint(
    things: Annotated[list[str], Argument(metavar="THING..", help="What is painted.")],
    colour: Annotated[Colour, Option("-c", "--colour", help="Which.")] = Colour.red,
    coats: Annotated[int, Option("-n", "--coats", min=1)] = 2,
    at: Reach = HERE,
    where: Annotated[list[Path] | None, Option("--where", help="May be repeated.")] = None,
    separator: Annotated[str | None, Option("-s")] = None,
    dry: Annotated[bool, Option("-d", "--dry", help="Only say so.")] = False,
) -> None:
    """Paint things.

    As often as is asked for.
    """
    told.append((things, colour, coats, at, where, separator, dry))


told: list[tuple[Any, ...]] = []


def said(*words: str) -> tuple[Any, ...]:
    told.clear()
    assert Command(paint).run("paint", words) == 0
    (only,) = told
    return only


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as raised:
        Command(paint).run("paint", words)
    assert raised.value.exit_code == 2
    return str(raised.value)


def test_a_commands_own_directory_is_not_the_clusters() -> None:
    def burn(
        directory: Annotated[str, Argument(metavar="DIR", help="What goes.")],
        at: Reach = HERE,
    ) -> None:
        """Burn."""

    with pytest.raises(AssertionError, match="burn has two parameters of one name"):
        Command(burn).run("burn", ["x"])


def test_defaults_hold_where_nothing_is_said() -> None:
    assert said("wall") == (["wall"], Colour.red, 2, HERE, None, None, False)


def test_words_and_options_may_stand_in_any_order() -> None:
    expected = (["wall", "door"], Colour.blue, 3, Reach("h:1", "d"), [Path("a"), Path("b")], ",", True)
    mixed = "wall -c blue --where a -b h:1 door --coats=3 --where b --dir d -s , -d"
    assert said(*mixed.split()) == expected


@pytest.mark.parametrize("separator", ["-", "-5", "-d", "--dry", "- -", ""])
def test_an_options_value_may_begin_with_a_dash(separator: str) -> None:
    assert said("wall", "-s", separator)[5:] == (separator, False)


def test_short_flags_stand_together_and_the_last_may_have_a_value() -> None:
    assert said("wall", "-dn", "3")[2:] == (3, HERE, None, None, True)
    assert said("wall", "-dn3")[2:] == (3, HERE, None, None, True)


def test_after_two_dashes_everything_is_a_word() -> None:
    assert said("-d", "--", "-c", "--help")[0] == ["-c", "--help"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["wall", "-c", "green"], "-c/--colour: 'green' is not one of red, blue. See `paint --help`."),
        (["wall", "-n", "0"], "-n/--coats: 0 is less than 1. See `paint --help`."),
        (["wall", "-n", "two"], "-n/--coats: 'two' is not a whole number. See `paint --help`."),
        (["wall", "--coat", "3"], "unrecognized arguments: --coat. See `paint --help`."),
        (["wall", "-s"], "-s: expected one argument. See `paint --help`."),
    ],
)
def test_what_is_wrong_with_a_word_is_said_in_a_sentence(words: Sequence[str], sentence: str) -> None:
    assert refused(*words).replace(": --coat 3.", ": --coat.") == sentence


def test_a_missing_word_is_named() -> None:
    assert refused() == "the following arguments are required: THING. See `paint --help`."


def test_help_shows_places_options_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert Command(paint).run("paint", ["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage: paint THING.. [OPTIONS]\n\nPaint things.\n\nAs often as is asked for.\n")
    assert "  THING..  What is painted." in shown
    assert "  -c, --colour red|blue  " in shown
    assert "Which. [default: red]" in shown


def test_a_command_that_is_not_there_names_the_nearest() -> None:
    group = CommandGroup("Things.")
    group.command("paint")(paint)
    with pytest.raises(UsageError, match=r"There is no things pain: did you mean paint\?"):
        group.run("things", ["pain"])


def test_every_command_has_help_and_every_group_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for path, entry in ROOT.walk("barnabas"):
        assert entry.help, path
        assert entry.run(path, ["--help"]) == 0
        assert capsys.readouterr().out.startswith(f"Usage: {path}")


@pytest.mark.parametrize("columns", [40, 80])
def test_help_is_as_wide_as_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for path, entry in ROOT.walk("barnabas"):
        assert entry.run(path, ["--help"]) == 0
        for line in capsys.readouterr().out.splitlines():
            assert len(line) <= columns or " " not in line.strip(), (path, line)


def test_every_flag_has_a_help_of_its_own_or_its_commands() -> None:
    for path, entry in ROOT.walk("barnabas"):
        if isinstance(entry, Command):
            flags = [flag for each in entry.parameters for flag in each.spec.flags]
            assert len(flags) == len(set(flags)), path
            assert not {"-h", "--help"} & set(flags), path


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_printed(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([flag]) == 0
    assert capsys.readouterr().out.startswith("barnabas ")


def test_a_directory_without_a_cluster_is_named() -> None:
    with pytest.raises(CommandError, match="There is no cluster in /nowhere: start one by `barnabas up"):
        Reach(directory="/nowhere").servers()


def test_a_state_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(CommandError, match=r"cluster\.json is not a cluster's state"):
        Reach(directory=str(tmp_path)).servers()


def completed(*words: str) -> list[str] | None:
    group = CommandGroup("Things.")
    group.command("paint")(paint)
    found = candidates(group, words)
    return None if found is None else [each.word for each in found]


def test_completion_knows_commands_values_and_what_was_said_already() -> None:
    assert completed("pa") == ["paint"]
    assert completed("paint", "-c", "") == ["red", "blue"]
    assert completed("paint", "--colour=b") == ["--colour=blue"]
    assert completed("paint", "wall", "--co") == ["--colour", "--coats", "--command-config"]
    assert completed("paint", "wall", "-n", "3", "--co") == ["--colour", "--command-config"]
    assert completed("paint", "--where", "") is None, "a file"
    assert completed("paint", "--where", "a", "--wh") == ["--where"], "may be repeated"
    assert completed("paint", "-n", "") == []
    assert completed("nothing", "") == []


def flags_of_commands() -> dict[str, set[str]]:
    return {
        path: {flag for each in entry.parameters for flag in each.spec.flags}
        for path, entry in ROOT.walk("barnabas")
        if isinstance(entry, Command)
    }


def test_every_command_that_reaches_a_cluster_takes_its_directory() -> None:
    assert [path for path, flags in flags_of_commands().items() if flags & {"-b", "-z"} and "--dir" not in flags] == []


def test_every_command_that_reports_does_so_for_programs_too() -> None:
    silent = {"broker", "coordinator", "completion", "demo", "reassign plan", "spark run"}  # plan's words are JSON
    found = {path for path, flags in flags_of_commands().items() if "--format" not in flags}
    assert found == {f"barnabas {each}" for each in silent}


@pytest.mark.parametrize("place", [["topic", "create"], ["produce", "-t", "t", "-k"], ["judge", "check"]])
def test_a_word_that_is_no_text_is_refused(place: Sequence[str]) -> None:
    words = [sys.executable, "-m", "barnabas", *place, b"a\xff"]
    done = subprocess.run(words, capture_output=True, env={**os.environ, "PYTHONUTF8": "1"}, timeout=60)
    assert (done.returncode, done.stderr) == (2, rb"barnabas: 'a\udcff' is not valid utf-8." + b"\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["token", "renew", "ü"], "HMAC ü: it is not base64.\n"),
        (["metrics", "--address", "a:x"], "No metrics at a:x (nonnumeric port: 'x')"),
        (["perf", "produce", "-t", "t", "-b", "a:1", "--rate", "0"], "--rate 0 is not a number of records a second.\n"),
        (["group", "list", "--state", "Stabel"], "--state: 'Stabel' is not one of Stable, "),
        (["topic", "list", "extra"], "unrecognized arguments: extra. See "),
        (["coordinator", "--port", "99999"], "--port: 99999 is more than 65535."),
        (["perf", "produce", "-t", "t", "--size", "9" * 20], f"--size: {'9' * 20} is more than 1073741824."),
    ],
)
def test_a_value_that_cannot_be_is_said_in_a_sentence(
    words: Sequence[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, *(["-b", "a:1"] if "token" in words else [])]) in (1, 2)
    assert capsys.readouterr().err.startswith(f"barnabas: {sentence}")


def test_what_the_locale_has_no_letters_for_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    assert run(["--version"]) == 0
    print_table(["group"], [["gü"]])
    print_json({"group": "gü"})
    shown.seek(0)
    assert shown.read().splitlines()[1:] == ["GROUP", r"g\xfc", r'{"group": "g\u00fc"}']


def test_an_interrupt_while_modules_are_imported_is_no_traceback() -> None:
    program = """
import sys
from barnabas import __main__

class Interrupted:
    def find_spec(self, name, *_):
        if name == "barnabas.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
__main__.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, b"")


UNWRITTEN = "barnabas: The standard output cannot be written"
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def in_a_shell(line: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a line in which `barnabas` is the command."""
    done = subprocess.run(
        ["sh", "-c", line.replace("barnabas", f"{sys.executable} -m barnabas")],
        capture_output=True,
        text=True,
        timeout=60,
        env=BUFFERED,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("barnabas -V >&-", (1, "", f"{UNWRITTEN} (Bad file descriptor).\n")),
        ("barnabas -V >/dev/full", (1, "", f"{UNWRITTEN} (No space left on device).\n")),
        ("barnabas none >&-", (2, "", "barnabas: There is no barnabas none: see `barnabas --help`.\n")),
        ("barnabas none 2>&-", (2, "", "")),
        ("barnabas none 2>/dev/full", (2, "", "")),
        ("barnabas -V >&- 2>&- <&-", (1, "", "")),
        (
            "barnabas zk set /a - -z 127.0.0.1:1 <&-",
            (1, "", "barnabas: The standard input or the standard output is closed.\n"),
        ),
    ],
)  # fmt: skip
def test_a_stream_that_is_closed_or_full_is_told_and_no_other_is_taken_for_it(
    line: str, outcome: tuple[int, str, str]
) -> None:
    assert in_a_shell(line) == outcome


def test_a_reader_that_has_gone_changes_nothing_of_a_failure() -> None:
    program = """
import sys
from barnabas.cli import app
from barnabas.cli.output import CommandError

def fail(path, words):
    print("shown to nobody")
    raise CommandError("It failed.")

app.ROOT.run = fail
sys.exit(app.run([]))
"""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, timeout=60, env=BUFFERED
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"barnabas: It failed.\n")


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("barnabas spark init /dev/null/a -b a:1", (2, "", "barnabas: /dev/null/a: Not a directory.\n")),
        ("barnabas demo --dir /dev/null/a", (1, "", "barnabas demo: /dev/null/a: Not a directory\n")),
    ],
)
def test_what_the_system_refuses_is_told_by_its_name_and_in_words(line: str, outcome: tuple[int, str, str]) -> None:
    assert in_a_shell(line) == outcome
