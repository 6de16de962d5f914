"""`sotto privatize`: line in, line out, with and without a daemon; `rotate-key` and `try`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO

import pytest
from click.testing import CliRunner

from sottovoce.core.privacy.policies import POLICIES
from sottovoce.edge.cli import main
from tests.support.agent import running
from tests.support.waiting import until

from .conftest import Device

TEXT = "Anna was in the garden by the pond, AX-99231"


def test_each_line_is_one_text(device: Device) -> None:
    result = device.sotto("privatize", "--level", "light", stdin=f"{TEXT}\n\n the pond \n")
    first, second, third, rest = result.stdout.split("\n")
    assert first[first.index(" ") :].startswith(" was in the garden by the pond, ")
    assert "AX-99231" not in first
    assert (second, third, rest) == ("", " the pond ", "")


def test_json_reports_words_with_their_places(device: Device) -> None:
    (answer,) = device.json("privatize", "--level", "strong", stdin=TEXT + "\n")
    assert answer.keys() == {"text", "words", "level", "mechanism", "eta", "bundle_id"}
    assert (answer["level"], answer["mechanism"], answer["eta"]) == ("strong", "pct2t.v2", 4.0)
    assert [TEXT[w["start"] : w["end"]] for w in answer["words"]][:3] == ["Anna", "was", "in"]
    for word in answer["words"]:
        released = answer["text"][word["released_start"] : word["released_end"]]
        assert word["replaced"] == (released != TEXT[word["start"] : word["end"]])
        assert word["replaced"] is False or word["protected"] is True


def test_words_are_shown_with_what_became_of_them(device: Device) -> None:
    shown = device.sotto("privatize", "--level", "light", "--words", stdin=f"{TEXT}\n\nthe fever\n")
    text, *words, blank, second, the, fever, end = shown.stdout.split("\n")
    assert [word.split() for word in words[1:7]] == [
        [typed, typed, *fate]
        for typed, *fate in (
            ("was", "pass", "GRAMMAR"),
            ("in", "pass", "REFERENCE"),
            ("the", "pass", "GRAMMAR"),
            ("garden", "noise", "NOUN"),
            ("by", "pass", "REFERENCE"),
            ("the", "pass", "GRAMMAR"),
        )
    ]
    name, code = words[0].split(), words[-1].split()
    assert (name[0], name[2:]) == ("Anna", ["draw", "NAME"])
    assert (code[0], code[2:]) == ("AX-99231", ["draw", "IDENTIFIER"])
    assert [name[1], code[1]] == [text.split()[0], text.split()[-1]]
    assert (blank, second, end) == ("", "the fever", "")
    assert fever.split() == ["fever", "fever", "noise", "FACT"]
    assert the.split()[2:] == ["pass", "GRAMMAR"]


def test_the_daemon_and_the_command_alone_give_the_same_bytes(device: Device) -> None:
    arguments = ["privatize", "--json", "--level", "strong"]
    alone = device.sotto(*arguments, stdin=TEXT).stdout
    with running(device.config):
        assert device.sotto(*arguments, stdin=TEXT).stdout == alone
        other = device.sotto(*arguments, stdin=TEXT + " again").stdout
    assert device.sotto(*arguments, stdin=TEXT + " again").stdout == other
    (status,) = device.json("status")
    assert status["ledger"]["releases"] == 2


@pytest.mark.parametrize("served", [False, True])
def test_errors_name_the_line(device: Device, served: bool) -> None:
    def check() -> None:
        result = device.sotto("privatize", stdin=b"the pond\nthe \0 pond\nthe pond\n", code=2)
        assert "standard input, line 2: the text looks binary" in result.stderr
        assert len(result.stdout.splitlines()) == 1  # what came before is out already
        result = device.sotto("privatize", stdin=b"the pond\ncaf\xe9\n", code=2)
        assert "line 2 is not UTF-8: byte 3" in result.stderr
        assert "iconv" in result.stderr

    if served:
        with running(device.config):
            check()
    else:
        check()


@pytest.mark.parametrize("command", ["privatize", "try"])
def test_a_text_typed_in_another_encoding_is_refused(device: Device, command: str) -> None:
    refused = device.sotto(command, "caf\udce9", code=2).stderr
    assert "UTF-8" in refused
    assert "caf" not in refused


def test_no_input_and_too_long_a_line_are_refused(device: Device) -> None:
    assert "is empty" in device.sotto("privatize", stdin=b"", code=2).stderr
    long = b"a " * (1 << 19) + b"a\n"
    assert "longer than" in device.sotto("privatize", stdin=long, code=2).stderr


def test_output_is_complete_or_absent(device: Device) -> None:
    source, target = device.folder / "in.txt", device.folder / "out.txt"
    source.write_text("the pond\nthe \0 pond\n")
    arguments = ["privatize", "--input", str(source), "--output", str(target)]
    device.sotto(*arguments, code=2)
    assert not target.exists()
    source.write_text("the pond\nthe garden\n")
    assert device.sotto(*arguments).stdout == ""
    assert len(target.read_text().splitlines()) == 2
    before = target.read_bytes()
    source.write_text("the \0 pond\n")
    device.sotto(*arguments, code=2)
    assert target.read_bytes() == before
    assert {p.name for p in device.folder.iterdir()} == {"home", "token", "in.txt", "out.txt"}


def test_a_missing_input_is_named(device: Device) -> None:
    result = device.sotto("privatize", "--input", "none.txt", code=2)
    assert "none.txt: cannot be read: No such file" in result.stderr


def test_unknown_settings_list_the_known_ones(device: Device) -> None:
    for option, said in (("--level", "strong"), ("--mechanism", "pct2t.v1"), ("--policy", "all")):
        result = device.sotto("privatize", option, "x", stdin="the pond", code=4)
        assert said in result.stderr


def test_a_spent_ledger_stops_it(device: Device) -> None:
    device.environment["SOTTO_PRIVACY_LEDGER_LIMIT"] = "40"
    result = device.sotto("privatize", stdin=f"the pond\n{TEXT}\n", code=5)
    assert "line 2: the privacy ledger is spent" in result.stderr


@contextmanager
def _command(
    device: Device, *arguments: str
) -> Iterator[tuple[Popen[bytes], IO[bytes], IO[bytes]]]:
    """Run the command as a process; yield its input and output."""
    # Tests that run in the background of a shell inherit a SIGINT that is ignored.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        f"from sottovoce.edge.cli import main; main({['privatize', *arguments]!r})"
    )
    with Popen(
        [sys.executable, "-c", program],
        env=device.environment,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process, process.stdin, process.stdout
        process.kill()


def test_an_endless_pipe_is_answered_line_by_line(device: Device) -> None:
    with _command(device, "--json") as (process, source, out):
        for text in ("the pond", "the garden"):
            source.write(text.encode() + b"\n")
            source.flush()
            assert len(json.loads(out.readline())["words"]) == 2
        source.close()
        assert process.wait(60) == 0


def test_an_interrupt_leaves_nothing_half_written(device: Device) -> None:
    target = device.folder / "out.txt"
    with _command(device, "--output", str(target)) as (process, source, _):
        source.write(b"the pond\n")
        source.flush()
        until(lambda: any(p.stat().st_size for p in device.folder.glob(".out.txt.*")))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert not list(device.folder.glob("*out.txt*"))


def test_a_reader_that_has_seen_enough_is_no_error(device: Device) -> None:
    with _command(device) as (process, source, out):
        out.close()
        source.write(b"the pond\n" * 3)
        source.close()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


NOUNS = "letter river garden pond house doctor clinic cough fever lamp window carpet tree song"


def _released(device: Device) -> str:
    return device.sotto("privatize", "--level", "strong", stdin=NOUNS).stdout


def test_a_new_key_draws_afresh_with_and_without_a_daemon(device: Device) -> None:
    first = _released(device)
    assert _released(device) == first
    assert device.json("rotate-key") == [{"epoch": 2}]
    second = _released(device)
    assert second != first
    with running(device.config):
        assert _released(device) == second
        assert "key 3" in device.sotto("rotate-key").stdout
        third = _released(device)
        assert third not in (first, second)
    assert _released(device) == third
    (status,) = device.json("status")
    assert (status["ledger"]["spent"], status["ledger"]["releases"]) == (3 * 14 * 4.0, 3)
    state = next(
        check for check in device.json("doctor", code=3)[0]["checks"] if check["check"] == "state"
    )
    assert "noise key 3" in state["detail"]


TRY_TEXT = "the pond and the garden, 4711"


LEVELS = ("strong", "balanced", "light")  # the strongest first


def test_every_policy_is_shown_with_the_levels_of_its_noise_and_nothing_is_charged(
    device: Device,
) -> None:
    (shown,) = device.json("try", TRY_TEXT, "--all", "--draws", "4")
    assert shown["text"] == TRY_TEXT
    tried = [(each["policy"], each["level"]) for each in shown["tried"]]
    assert tried == [
        (name, level)
        for name, policy in POLICIES.items()
        for level in (LEVELS if policy.with_noise() else LEVELS[:1])
    ]
    for each in shown["tried"]:
        assert each["allowed"]
        passed = all("4711" in released for released in each["releases"])
        assert passed is (each["policy"] == "personal")  # a small number passes
        assert 0 < each["guessed"] <= 1
    names = [each for each in shown["tried"] if each["policy"] == "names"]
    assert all(each["releases"][0].startswith("the pond and the garden, ") for each in names)
    assert all(each["charge"] == 0 for each in names)
    (status,) = device.json("status")
    assert status["ledger"]["releases"] == status["ledger"]["spent"] == 0


def test_without_options_it_shows_the_policies_of_use(device: Device) -> None:
    def policies() -> set[str]:
        (shown,) = device.json("try", TRY_TEXT)
        return {each["policy"] for each in shown["tried"]}

    assert policies() == {"personal", device.config.chat.policy, "content"}
    device.environment["SOTTO_PRIVACY_POLICY"] = "papers"
    assert policies() == {"personal", device.config.chat.policy, "papers"}


def test_what_the_owner_forbids_is_shown_as_such(device: Device) -> None:
    device.environment["SOTTO_PRIVACY_LEAST_POLICY"] = "names"
    (shown,) = device.json("try", TRY_TEXT)
    allowed = {each["policy"]: each["allowed"] for each in shown["tried"]}
    assert allowed == {"personal": False, "content": True}
    assert "privacy.least_policy" in device.sotto("try", TRY_TEXT).stdout


def test_draws_are_fresh_and_cost_what_a_release_would(device: Device) -> None:
    options = ("--policy", "content", "--level", "strong", "--draws", "12")
    (shown,) = device.json("try", *options, stdin=TRY_TEXT)
    (tried,) = shown["tried"]
    assert len(set(tried["releases"])) > 1
    device.sotto("privatize", TRY_TEXT, "--policy", "content", "--level", "strong")
    assert device.json("status")[0]["ledger"]["spent"] == tried["charge"] > 0


def test_what_the_owner_does_not_allow_is_not_shown(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_PRIVACY_LARGEST_ETA="20")
    (shown,) = device.json("try", TRY_TEXT, "--policy", "content")
    refused = {each["level"]: each.get("refused", "") for each in shown["tried"]}
    assert refused["strong"] == refused["balanced"] == ""
    assert "allows 20 at most" in refused["light"]
    assert "not allowed here" in device.sotto("try", TRY_TEXT).stdout


def test_what_became_of_a_word_shows_in_colour(device: Device) -> None:
    options = ("try", TRY_TEXT, "--policy", "content", "--level", "light")  # which moves no word
    shown = CliRunner().invoke(main, options, env=device.environment, color=True).stdout
    assert "\x1b[33m\x1b[4mpond\x1b[0m" in shown  # noise, and came out as itself
    assert "\x1b[36m" in shown  # the number
    assert "\x1b" not in device.sotto(*options).stdout


def test_unknown_names_and_texts_are_told(device: Device) -> None:
    assert "policy" in device.sotto("try", TRY_TEXT, "--policy", "none", code=4).stderr
    assert "mechanism" in device.sotto("try", TRY_TEXT, "--mechanism", "none", code=4).stderr
    assert "line 1" in device.sotto("try", stdin=b"caf\xe9\n", code=2).stderr
    assert "give one" in device.sotto("try", TRY_TEXT, "--input", "x", code=2).stderr
