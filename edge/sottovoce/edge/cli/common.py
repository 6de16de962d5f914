"""Shared code of all commands: configuration, input, errors, JSON, progress.

Every command fails in the same way: ``error:`` and ``fix:`` on standard error, and an exit code by
kind of error. Standard output holds only data.

A pipe may never end, so each line is processed as it arrives. Lines are read as bytes first, so
that every error names its line.
"""

from __future__ import annotations

import os
import pwd
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, Final, TypeVar

import click

from sottovoce.core.errors import ConfigError, InvalidInput, SottovoceError
from sottovoce.core.platform.console import if_interrupted, print_json, progress_bar
from sottovoce.core.privacy.mechanisms import MECHANISMS
from sottovoce.core.privacy.policies import LEVELS, POLICIES
from sottovoce.core.rpc.address import socket_path
from sottovoce.core.text.words import LARGEST_TEXT, decode
from sottovoce.edge import config as settings
from sottovoce.edge.config import MACHINE, Config
from sottovoce.edge.state.database import DATABASE, Store
from sottovoce.edge.state.device_key import key_in
from sottovoce.edge.state.outbox import standing
from sottovoce.v1 import edge_agent_pb2 as agent

_F = TypeVar("_F", bound=Callable[..., Any])


PATH: Final = click.Path(path_type=Path)


def privacy_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add --level, --mechanism and --policy, which the function gets as ``privacy``."""

    @wraps(function)
    def with_privacy(*given: Any, level: str, mechanism: str, policy: str, **more: Any) -> None:
        privacy = agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy)
        function(*given, privacy=privacy, **more)

    for name, values, what in (
        ("--policy", either(POLICIES), "Which words are protected"),
        ("--mechanism", either(MECHANISMS), "Mechanism"),
        ("--level", f"{either(LEVELS)}, or a target: attack:0.3", "Protection level"),
    ):
        told = f"{what}: {values}.  [default: configured]"
        with_privacy = click.option(name, default="", help=told)(with_privacy)
    return with_privacy


def say(value: Any, text: str) -> None:
    """Print the result of the current command: the value with --json, else the text."""
    if click.get_current_context().params["as_json"]:
        print_json(value)
    else:
        click.echo(text)


def either(names: Iterable[str]) -> str:
    """Join names as in a sentence.

    >>> either(("strong", "balanced", "light"))
    '"strong", "balanced" or "light"'
    """
    *others, last = (f'"{name}"' for name in names)
    return f"{', '.join(others)} or {last}"


def load_config() -> Config:
    """Load the owner's settings from the file that ``sotto --config`` names."""
    return settings.load(click.get_current_context().obj)


@contextmanager
def at(line: Line) -> Iterator[None]:
    """Put the place of a line, if it has one, in front of the errors of the block."""
    try:
        yield
    except SottovoceError as error:
        raise (numbered(error, line.place) if line.place else error) from error


def numbered(error: SottovoceError, place: str) -> SottovoceError:
    """Return the same error, with its place in the input in front."""
    return type(error)(
        f"{place}: {error.problem}", fix=error.fix, subject=error.subject, metadata=error.metadata
    )


T = TypeVar("T")


class Stream(Iterator[T]):
    """The responses of a call; any thread may call ``cancel`` to end the call."""

    def __init__(self, responses: Iterator[T], cancel: Callable[[], object]) -> None:
        self._responses = responses
        self.cancel = cancel

    def __next__(self) -> T:
        return next(self._responses)


def interruptible(call: Callable[[], Stream[T]]) -> Generator[T, None, None]:
    """Yield the responses of ``call``, which is made and read in a separate thread.

    Closing this generator cancels the call.

    Raises:
        BaseException: any error that the call raises.
    """
    came: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
    streams: list[Stream[T]] = []
    stopped = threading.Event()

    def read() -> None:
        try:
            stream = call()
            streams.append(stream)  # first, so that one of the two threads cancels it
            if stopped.is_set():
                stream.cancel()
            for response in stream:
                came.put((response,))
        except BaseException as error:
            came.put(error)
        came.put(None)

    thread = threading.Thread(target=read, daemon=True)
    try:
        thread.start()  # here, because Ctrl-C may come while it starts
        while (each := came.get()) is not None:
            if isinstance(each, BaseException):
                raise each
            yield each[0]
    finally:
        stopped.set()
        for stream in streams:
            stream.cancel()


@contextmanager
def open_state(config: Config) -> Iterator[Store]:
    """Open the agent's state, whether or not an agent runs."""
    not_as_root(config)
    with closing(Store.open(config.agent.state, key_in(config.agent.key_place))) as store:
        yield store


def not_as_root(config: Config) -> None:
    """Refuse to let root write into the state of another user's agent."""
    user = _user(config) if os.geteuid() == 0 else 0
    if user:
        name = _name(user)
        raise ConfigError(
            f"the agent's state in {config.agent.state} is of the user {name}, who could not read "
            "what root leaves there",
            fix=f"type it as that user: sudo -u {name} sotto ...",
            subject="agent.state",
        )


def not_a_strangers(config: Config) -> None:
    """Refuse a unix socket unless this user, root or the state's owner owns it."""
    path = socket_path(config.agent.listen)
    if path is None:
        return
    ours = {os.geteuid(), 0}
    with suppress(OSError):  # no state, so no owner
        ours.add(config.agent.state.lstat().st_uid)
    with suppress(FileNotFoundError):  # the agent has just ended
        if (owner := path.stat().st_uid) not in ours:
            raise ConfigError(
                f"{path} is of the user {_name(owner)}, and not the agent's",
                fix="find out who that is; then set agent.listen to a socket in a folder that only "
                "you can write",
                subject="agent.listen",
            )


def _user(config: Config) -> int:
    """Return the id of the user that runs the agent: the owner of its database.

    Without a database, it is the owner of the nearest existing folder above, if the settings are
    the machine's. Otherwise it is 0, so that root may decide, as in a container.
    """
    state = config.agent.state
    places = [state, *state.parents] if config.source == MACHINE else []
    for place in (state / DATABASE, *places):
        try:
            return place.lstat().st_uid
        except FileNotFoundError:
            continue
    return 0


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:  # a number without a name, as in containers
        return f"#{user}"


def left(name: str) -> tuple[str, str]:
    """Return the message of Ctrl-C while a customisation is followed."""
    return (
        f"no longer following {name}, which goes on in the agent and in the cloud",
        f"`sotto logs {name}` follows it again, `sotto cancel {name}` ends it",
    )


def figures(record: agent.Customization) -> str:
    """Return the training figures that the cloud has sent so far."""
    seen = record.progress
    told = []
    if seen.loss:
        told.append(f"loss {seen.loss:.3f}")
    if seen.reconstruction_loss:
        told.append(f"reconstruction loss {seen.reconstruction_loss:.3f}")
    if seen.held_out_accuracy:
        told.append(f"held-out accuracy {seen.held_out_accuracy:.1%}")
    if seen.examples_per_second:
        told.append(f"{seen.examples_per_second:.0f} examples/s")
        told.append(f"{seen.seconds_left:.0f} s left")
    return "  ".join([*told, record.message] if record.message else told)


def brief(record: agent.Customization) -> str:
    """Return the figures that fit beside a bar in a line of 80 columns."""
    seen = record.progress
    if record.message or not seen.epochs:
        return record.message
    accuracy = seen.held_out_accuracy
    told = f"accuracy {accuracy:.1%}" if accuracy else f"loss {seen.loss:.3f}"
    return f"{told}  {seen.seconds_left:.0f} s left" if seen.seconds_left else told


def sentence(record: agent.Customization) -> str:
    """Return a sentence with the adapter's name and its customisation's state."""
    name, seen = f"{record.adapter} ({record.id[:8]})", record.progress
    waiting = f": {record.message}" if record.message else ""
    match record.state:
        case agent.CUSTOMIZATION_STATE_UPLOADING:
            return f"{name}: {record.uploaded} of {record.examples} uploaded{waiting}"
        case agent.CUSTOMIZATION_STATE_TRAINING if seen.epochs:
            return f"{name}: epoch {seen.epoch} of {seen.epochs}  {figures(record)}"
        case agent.CUSTOMIZATION_STATE_SUCCEEDED:
            if not seen.held_out_accuracy:  # private training has no held-out part
                return f"{name}: ready"
            return f"{name}: ready, held-out accuracy {seen.held_out_accuracy:.1%}"
        case _:
            return f"{name}: {standing(record)}{waiting}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its line feed, and its place ("notes.txt, line 3")."""

    text: str
    place: str


def text_argument(function: _F) -> _F:
    """Add TEXT and --input, which the function gets as ``text`` and ``source``."""
    option = click.option("--input", "source", type=PATH, help="File.  [default: TEXT, else stdin]")
    return click.argument("text", required=False)(option(function))


def answered(number: int, target: Path | None = None) -> None:
    """Record for Ctrl-C how many texts were answered, and the output file if any."""
    if target is not None:
        if_interrupted(f"{target} is not written", "run the command again")
    else:
        some = "1 text is" if number == 1 else f"{number} texts are"
        if_interrupted(
            f"{some} answered", f"run it again with the texts from number {number + 1} on"
        )


def read_texts(text: str | None, source: Path | None, doing: str = "privatising") -> Iterator[Line]:
    """Yield TEXT alone, or the lines of a file or of standard input."""
    if text is None:
        return read_lines(source, doing)
    if source is not None:
        raise InvalidInput("both TEXT and --input are given", fix="give one", subject="text")
    return iter([Line(text, "")])


def read_lines(
    source: Path | None, doing: str = "privatising", *, wanted: str = "give one text a line"
) -> Iterator[Line]:
    """Yield the lines of a file or of standard input; a bar shows progress for files.

    Args:
        wanted: the fix for an empty input.

    Raises:
        InvalidInput: no lines, a line over 1 MiB, text not in UTF-8, or an unreadable file.
    """
    name = "standard input" if source is None else str(source)
    with _opened(source) as file, progress_bar(enabled=source is not None) as progress:
        size = source.stat().st_size if source is not None else None
        task = progress.add_task(doing, total=size, note="bytes")
        number = 0
        while data := file.readline(LARGEST_TEXT + 2):
            number += 1
            place = f"{name}, line {number}"
            if len(data) > LARGEST_TEXT + 1:
                raise InvalidInput(
                    f"{place} is longer than {LARGEST_TEXT} bytes",
                    fix="put one text on a line, each at most 1 MiB",
                    subject="text",
                )
            yield Line(decode(data, place, begins=number == 1).removesuffix("\n"), place)
            progress.advance(task, len(data))
        if number == 0:
            raise InvalidInput(f"{name} is empty", fix=wanted, subject="text")


@contextmanager
def _opened(source: Path | None) -> Iterator[BinaryIO]:
    if source is None:
        with nullcontext(sys.stdin.buffer) as file:
            yield file
        return
    try:
        opened = source.open("rb")
    except OSError as error:
        raise numbered(
            InvalidInput(f"cannot be read: {error.strerror}", fix="name another file"), str(source)
        ) from error
    with opened as file:
        yield file


FOR_EITHER: Final = (("text", "label"), ("input", "output"))
"""The column pairs of tables for classification and for generation."""


def read_table(source: Path | None, *columns: tuple[str, str]) -> list[agent.LabelledText]:
    """Read the examples of a tab-separated file with a header of two column names.

    Args:
        source: the file; None is standard input.
        columns: the allowed pairs, from `FOR_EITHER`; by default texts and labels.

    Raises:
        InvalidInput: the header or a row is wrong; the message gives the line number.
    """
    columns = columns or FOR_EITHER[:1]
    name = source or "standard input"
    wanted = f"begin the file with a header: {' or '.join(map('<TAB>'.join, columns))}"
    rows = read_lines(source, "reading", wanted=wanted)
    header = next(rows).text.rstrip("\r").split("\t")
    found = [names for names in columns if all(header.count(column) == 1 for column in names)]
    if len(found) != 1:
        missing = [column for column in columns[0] if header.count(column) != 1]
        raise InvalidInput(
            f"{name}, line 1: no column {missing[0]!r}"
            if missing
            else f"{name}, line 1: columns for both classification and generation",
            fix=wanted,
            subject="input",
        )
    names = found[0]
    examples: list[agent.LabelledText] = []
    for line in rows:
        fields = line.text.rstrip("\r").split("\t")
        if fields == [""]:
            continue
        if len(fields) != len(header):
            raise InvalidInput(
                f"{line.place}: {len(fields)} columns where the header has {len(header)}",
                fix=f"put one tab between {names[0]} and {names[1]}, and none inside them",
                subject="input",
            )
        row = dict(zip(header, fields, strict=True))
        for column in names:
            if not row[column].strip():
                raise InvalidInput(
                    f"{line.place}: the {column} is empty", fix="fill it in or drop the line"
                )
        text, other = (row[column] for column in names)
        examples.append(
            agent.LabelledText(text=text, label=other.strip())
            if names == FOR_EITHER[0]
            else agent.LabelledText(text=text, output=other)
        )
    return examples
