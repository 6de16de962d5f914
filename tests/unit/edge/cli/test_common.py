"""What commands share: input lines, tables of examples, progress, and answers broken off."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.platform.console import progress_bar
from sottovoce.core.text.words import LARGEST_TEXT
from sottovoce.edge.cli.common import (
    FOR_EITHER,
    Stream,
    brief,
    interruptible,
    read_lines,
    read_table,
    sentence,
)
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

from .conftest import Device


def test_only_the_line_feed_is_taken_off(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes("\ufeffone \r\n\n\tzwei ü\x0b\u2028x\n\ufefflast".encode())
    lines = list(read_lines(file))
    assert [line.text for line in lines] == ["one \r", "", "\tzwei ü\x0b\u2028x", "\ufefflast"]
    assert [line.place for line in lines] == [f"{file}, line {n}" for n in (1, 2, 3, 4)]


def test_lines_before_a_broken_one_are_given(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"one\n\xff\n")
    lines = read_lines(file)
    assert next(lines).text == "one"
    with pytest.raises(InvalidInput, match="line 2 is not UTF-8: byte 0"):
        next(lines)


def test_the_longest_text_fits_on_a_line_and_no_longer_one(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"x" * LARGEST_TEXT + b"\ny\n")
    assert [len(line.text) for line in read_lines(file)] == [LARGEST_TEXT, 1]
    file.write_bytes(b"x" * (LARGEST_TEXT + 1) + b"\ny\n")
    with pytest.raises(InvalidInput, match="line 1 is longer"):
        list(read_lines(file))


def test_a_folder_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Is a directory"):
        list(read_lines(tmp_path))


ROWS = ["the river in the garden\twet", "the stone in the garden\tdry"] * 10


def _table(device: Device, rows: list[str], header: str) -> str:
    file = device.folder / "train.tsv"
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("text\tclass", ROWS, "line 1: no column 'label'"),
        ("label", ROWS, "line 1: no column 'text'"),
        ("text\tlabel\tlabel", ROWS, "line 1: no column 'label'"),
        ("text\tlabel", [*ROWS[:3], "no tab"], "line 5: 1 columns where the header has 2"),
        ("text\tlabel", [*ROWS[:3], "a\tb\tc"], "line 5: 3 columns"),
        ("text\tlabel", [*ROWS[:3], " \twet"], "line 5: the text is empty"),
        ("text\tlabel", [*ROWS[:3], "the pond\t"], "line 5: the label is empty"),
    ],
)
def test_broken_tables_name_the_line(
    device: Device, header: str, rows: list[str], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_table(Path(_table(device, rows, header)))


def test_columns_may_stand_in_any_order_among_others(device: Device) -> None:
    table = _table(device, ["7\twet\tthe pond\r", "", "8\tdry\tthe stone\r"], "id\tlabel\ttext\r")
    assert [(e.text, e.label) for e in read_table(Path(table))] == [
        ("the pond", "wet"),
        ("the stone", "dry"),
    ]


def test_a_header_says_which_task_it_is(device: Device) -> None:
    table = Path(_table(device, ["7\ta pond\ta stone "], "id\tinput\toutput"))
    (example,) = read_table(table, *FOR_EITHER)
    assert (example.text, example.output, example.label) == ("a pond", "a stone ", "")
    with pytest.raises(InvalidInput, match="no column 'text'"):
        read_table(table)
    both = Path(_table(device, ["a\tb\tc\td"], "text\tlabel\tinput\toutput"))
    with pytest.raises(InvalidInput, match="both classification and generation"):
        read_table(both, *FOR_EITHER)


def test_an_empty_table_needs_a_header_too(tmp_path: Path) -> None:
    (tmp_path / "in").touch()
    with pytest.raises(InvalidInput) as caught:
        read_table(tmp_path / "in", *FOR_EITHER)
    assert "text<TAB>label" in caught.value.fix
    assert "input<TAB>output" in caught.value.fix


def test_bytes_that_are_no_text_name_line_and_offset(device: Device) -> None:
    file = device.folder / "train.tsv"
    file.write_bytes(b"text\tlabel\nthe pond\twet\ncaf\xe9\tdry\n")
    with pytest.raises(InvalidInput, match="line 3 is not UTF-8: byte 3"):
        read_table(file)


def test_figures_of_the_training_are_told() -> None:
    record = agent.Customization(
        adapter="desk",
        state=agent.CUSTOMIZATION_STATE_TRAINING,
        progress=training.JobProgress(
            epoch=1,
            epochs=4,
            loss=0.5,
            reconstruction_loss=6.25,
            held_out_accuracy=0.75,
            examples_per_second=120.4,
            seconds_left=33.3,
        ),
    )
    said = sentence(record)
    for part in ("epoch 1 of 4", "loss 0.500", "reconstruction loss 6.250", "75.0%"):
        assert part in said
    assert "120 examples/s  33 s left" in said


def test_a_bar_has_room_for_its_figures_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    narrow = Console(file=shown, width=80, force_terminal=True, legacy_windows=False)
    monkeypatch.setattr("rich.console.Console", lambda **_: narrow)
    record = agent.Customization(
        progress=training.JobProgress(
            epoch=3, epochs=10, held_out_accuracy=0.875, seconds_left=1234
        )
    )
    with progress_bar() as bars:
        task = bars.add_task("privatising", total=10_000, completed=4_321, note=brief(record))
        bars.refresh()
        (line,) = narrow.render_lines(bars.get_renderable())
        told = "".join(segment.text for segment in line)
        for part in ("privatising", "4321/10000", "accuracy 87.5%  1234 s left"):
            assert part in told
        bars.update(task, note="waiting: " + "the cloud at a.example.org does not answer " * 3)
        assert len(narrow.render_lines(bars.get_renderable())) == 1


def test_all_comes_and_is_read_where_no_signal_is_raised() -> None:
    threads = set()

    def responses() -> Iterator[int]:
        for number in range(3):
            threads.add(threading.current_thread())
            yield number

    assert list(interruptible(lambda: Stream(responses(), int))) == [0, 1, 2]
    assert threading.main_thread() not in threads


def test_what_goes_wrong_is_raised_after_what_came() -> None:
    def responses() -> Iterator[int]:
        yield 1
        raise NotFound("no such adapter")

    came = interruptible(lambda: Stream(responses(), int))
    assert next(came) == 1
    with pytest.raises(NotFound, match="no such adapter"):
        next(came)


def test_a_call_that_cannot_be_made_is_told() -> None:
    def call() -> Stream[int]:
        raise NotFound("no such adapter")

    with pytest.raises(NotFound, match="no such adapter"):
        next(interruptible(call))


def test_an_answer_that_is_broken_off_is_cancelled() -> None:
    cancelled, ended = threading.Event(), threading.Event()

    def responses() -> Iterator[int]:
        yield 1
        assert cancelled.wait(60)
        ended.set()

    came = interruptible(lambda: Stream(responses(), cancelled.set))
    assert next(came) == 1
    came.close()
    assert cancelled.is_set()
    assert ended.wait(60)


def test_one_that_had_not_begun_is_cancelled_when_it_does() -> None:
    """Ctrl-C comes to the main thread, while another makes the call."""
    # A shell has its background jobs ignore Ctrl-C, and these tests may run in one.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begin, cancelled = threading.Event(), threading.Event()
    main = threading.get_ident()

    def call() -> Stream[int]:
        signal.pthread_kill(main, signal.SIGINT)
        assert begin.wait(60)
        return Stream(iter(()), cancelled.set)

    try:
        with pytest.raises(KeyboardInterrupt):
            next(interruptible(call))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not cancelled.is_set()
    begin.set()
    assert cancelled.wait(60)
