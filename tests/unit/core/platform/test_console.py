"""What all commands share: errors, tables, and the help of a group."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from importlib import import_module

import click
import pytest
from click.testing import CliRunner

from sottovoce.core import errors
from sottovoce.core.platform.console import (
    Command,
    LazyGroup,
    if_interrupted,
    plain,
    print_fact,
    print_json,
    print_table,
    print_text,
)
from sottovoce.edge.cli.common import numbered
from tests.support.waiting import until

KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_json", [False, True])
def test_each_kind_of_error_has_its_exit_code_and_keeps_output_clean(
    kind: type[errors.SottovoceError], as_json: bool
) -> None:
    @click.command(cls=Command)
    def fails(as_json: bool) -> None:
        raise kind("it broke", fix="mend it", subject="it")

    result = CliRunner().invoke(fails, ["--json"] if as_json else [])
    assert result.exit_code == kind.exit_code
    assert result.stdout == ""
    if as_json:
        assert json.loads(result.stderr)["error"] == {
            "code": kind.code.name,
            "problem": "it broke",
            "fix": "mend it",
            "subject": "it",
        }
    else:
        assert result.stderr == "error: it broke\n  fix: mend it\n"


def test_colours_are_left_out_if_the_environment_says_so() -> None:
    @click.command(cls=Command)
    def shows(as_json: bool) -> None:
        click.secho("calm", fg="red", bold=True)

    assert "\x1b" in CliRunner().invoke(shows, color=True, env={"NO_COLOR": ""}).stdout
    assert CliRunner().invoke(shows, color=True, env={"NO_COLOR": "1"}).stdout == "calm\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_is_put_in_front_of_the_same_error(kind: type[errors.SottovoceError]) -> None:
    error = kind("it broke", fix="mend it", subject="it", metadata={"a": "b"})
    placed = numbered(error, "line 7")
    assert type(placed) is kind
    assert placed.problem == "line 7: it broke"
    assert (placed.fix, placed.subject, placed.metadata) == ("mend it", "it", {"a": "b"})


@pytest.mark.parametrize("needs", ["", "some-package[extra]"])
def test_a_library_that_a_command_needs_is_named_with_what_brings_it(needs: str) -> None:
    @click.command(cls=Command, needs=needs)
    def learn(as_json: bool) -> None:
        import_module("absent_library")

    result = CliRunner().invoke(learn)
    if needs:
        assert result.exit_code == errors.NotReady("").exit_code
        assert "absent_library" in result.stderr
        assert needs in result.stderr
    else:  # then it is a fault of ours, which keeps its traceback
        assert isinstance(result.exception, ModuleNotFoundError)


def test_bugs_are_not_dressed_up_as_errors() -> None:
    @click.command(cls=Command)
    def broken(as_json: bool) -> None:
        raise ZeroDivisionError

    assert isinstance(CliRunner().invoke(broken).exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(errno.ENOTDIR, 3, "/srv/state"), (errno.EACCES, 3, "/srv/state"), (errno.ENOSPC, 5, "full")],
)
def test_a_file_that_the_system_refuses_is_no_traceback(number: int, code: int, said: str) -> None:
    @click.command(cls=Command)
    def refused(as_json: bool) -> None:
        raise OSError(number, os.strerror(number), "/srv/state")

    result = CliRunner().invoke(refused)
    assert result.exit_code == code
    assert said in result.stderr
    assert "  fix: " in result.stderr


HOSTILE = "\x1b]0;owned\x07\x7f\x9b2J\u202eevil\u2066\n  fix: forged"
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def _obeyed(shown: str) -> bool:
    return any(
        unicodedata.category(c) == "Cc" or unicodedata.bidirectional(c) in BIDI for c in shown
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_of_a_stranger_is_obeyed_by_no_terminal(as_json: bool) -> None:
    @click.command(cls=Command)
    def fails(as_json: bool) -> None:
        raise errors.Unavailable(HOSTILE, fix=HOSTILE)

    told = CliRunner().invoke(fails, ["--json"] if as_json else []).stderr
    lines = told.splitlines()
    assert len(lines) == (1 if as_json else 2)
    assert not any(map(_obeyed, lines))
    if as_json:
        assert json.loads(told)["error"]["problem"] == HOSTILE


def test_json_is_the_same_value_and_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    value = {HOSTILE: ["ünïcode 🌲", *map(chr, range(0xFF))]}
    print_json(value)
    told = capsys.readouterr().out
    assert json.loads(told) == value
    assert "ünïcode 🌲" in told
    assert not _obeyed(told.removesuffix("\n"))


def test_plain_text_keeps_its_lines_unless_it_is_to_be_one() -> None:
    assert plain("a\tb\nc\x1b[2J\u2069") == "a\tb\nc\ufffd[2J\ufffd"
    assert plain("a\tb\nc", line=True) == "a\tb\ufffdc"


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("raised", [KeyboardInterrupt, click.Abort])
def test_an_interrupt_says_what_goes_on(raised: type[BaseException], as_json: bool) -> None:
    @click.command(cls=Command)
    def waits(as_json: bool) -> None:
        if_interrupted("first", "nothing")
        if_interrupted("it goes on", "look again")
        raise raised

    result = CliRunner().invoke(waits, ["--json"] if as_json else [])
    assert result.exit_code == 130
    if as_json:
        told = json.loads(result.stderr)["error"]
        assert (told["problem"], told["fix"]) == ("it goes on", "look again")
    else:
        assert result.stderr == "interrupted: it goes on\n next: look again\n"


def test_an_interrupt_of_which_nothing_is_known_is_said() -> None:
    @click.command(cls=Command)
    def waits(as_json: bool) -> None:
        raise KeyboardInterrupt

    result = CliRunner().invoke(waits)
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_an_end_of_input_at_a_prompt_is_no_interrupt() -> None:
    @click.command(cls=Command)
    def asks(as_json: bool) -> None:
        click.prompt("code")

    result = CliRunner().invoke(asks, input="")
    assert result.exit_code == errors.InvalidInput.exit_code
    assert "fix:" in result.stderr


_STUBBORN = """
import signal, threading, click
from sottovoce.core.platform.console import Command

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs the tests may ignore it

@click.command(cls=Command)
def stubborn(as_json):
    threading.Thread(target=threading.Event().wait).start()  # nothing ends it
    try:
        print("ready", flush=True)
        signal.pause()
    finally:
        print("interrupted", flush=True)

stubborn()
"""


def test_pressed_again_it_ends_at_once_and_without_a_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _STUBBORN],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        until(lambda: process.send_signal(signal.SIGINT) or process.poll() is not None)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (-signal.SIGINT, 130)
    assert "Traceback" not in told


ROWS = [("a" * 24, "x" * 40, "50.0%", "a long story in words"), ("b", "y", "1", "short")]


def _printed(
    capsys: pytest.CaptureFixture[str], *spare: str, rows: Sequence[Sequence[str]] = ROWS
) -> tuple[list[str], str]:
    print_table(("id", "name", "accuracy", "story"), rows, spare)
    shown = capsys.readouterr()
    return shown.out.splitlines(), shown.err


def test_a_table_for_a_file_has_a_row_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    rows = [("a  b", " c", "d" * 500, "e")]
    lines, said = _printed(capsys, "story", rows=rows)
    assert len(lines) == 2
    assert "a  b   c" in lines[1]
    assert "d" * 500 in lines[1]
    assert said == ""


def test_a_table_that_fits_is_shown_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(24 + 40 + 8 + 21 + 6))
    lines, said = _printed(capsys, "story")
    assert len(lines) == 3
    assert lines[1].endswith("a long story in words")
    assert said == ""


def test_a_narrow_table_loses_spare_columns_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines, said = _printed(capsys, "story", "name")
    assert lines[0].split() == ["ID", "NAME", "ACCURACY"]  # only as many as must go
    assert "story" in said
    assert "name" not in said


def test_a_narrow_table_folds_the_widest_values_and_loses_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines, said = _printed(capsys)
    assert said == ""
    assert max(map(len, lines)) <= 60
    assert lines[1].startswith("a" * 24)
    assert "".join(lines).count("x") == 40
    for word in ("long", "story", "words", "50.0%"):
        assert any(word in line for line in lines)


def test_what_does_not_fit_even_folded_is_left_out_from_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines, said = _printed(capsys)
    assert max(map(len, lines)) <= 40
    assert lines[0].split() == ["ID", "NAME"]
    assert "accuracy" in said
    assert "story" in said


def test_numbers_end_in_one_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("day", "spent", "for"), [("a", "1,234 eta", "b"), ("c", "5 eta", "2 x y")])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.index("SPENT") + 5 == first.index("eta") + 3 == second.index("eta") + 3


def test_a_paragraph_goes_on_in_the_next_line_of_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    print_fact("cloud:", "one two three four five six seven", 8)
    print_text("\nlast")
    assert capsys.readouterr().out.splitlines() == [
        *("cloud:  one two three four", "        five six seven", "", "last")
    ]
    monkeypatch.delenv("COLUMNS")
    print_fact("cloud:", "one\x1b[2J " * 20, 8)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_programs_of_the_tests_inherit_no_width_of_a_terminal() -> None:
    program = "import os; print([name for name in ('COLUMNS', 'LINES') if name in os.environ])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout == "[]\n"
    assert "COLUMNS" not in os.environ


def test_a_text_without_quotes_is_told_of_them() -> None:
    @click.command(cls=Command)
    @click.argument("text")
    def show(text: str, as_json: bool) -> None:
        click.echo(text)

    told = CliRunner().invoke(show, ["my", "landlord"])
    assert told.exit_code == 2
    assert "in quotes" in told.output


PROGRAMS = [("edge", "sotto"), ("cloud", "sotto-cloud"), ("models", "sotto-models")]


def _program(package: str) -> LazyGroup:
    """The program's group; its package may be absent, as on a device."""
    found = pytest.importorskip(f"sottovoce.{package}.cli", exc_type=ImportError).main
    assert isinstance(found, LazyGroup)
    return found


@pytest.mark.parametrize(("package", "name"), PROGRAMS)
def test_each_command_has_one_line_of_the_help(package: str, name: str) -> None:
    main = _program(package)
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80, prog_name=name).output
    commands = main.list_commands(main.make_context(name, ["version"]))
    for command in commands:
        assert len(re.findall(rf"^  {command} +\S", shown, re.M)) == 1
    between = shown.split("Options:")[1].split("Exit codes:")[0]
    listed = [line for line in between.splitlines() if re.match(r"  [a-z]", line)]
    assert len(listed) == len(commands)  # none goes on in a second line
    assert len({line.index(line.split(maxsplit=1)[1]) for line in listed}) == 1


@pytest.mark.parametrize(
    ("package", "heading", "command"),
    [
        ("edge", "Privatise", "try"),
        ("edge", "Conversations", "chat"),
        ("edge", "Adapters", "customize"),
        ("edge", "Diagnosis", "doctor"),
        ("cloud", "Tenants", "limit"),
        ("cloud", "Diagnosis", "status"),
    ],
)
def test_a_command_stands_under_its_heading(package: str, heading: str, command: str) -> None:
    shown = CliRunner().invoke(_program(package), ["--help"]).output
    section = shown.split(f"\n{heading}:\n")[1].split("\n\n")[0]
    assert re.search(rf"^  {command} ", section, re.M)
