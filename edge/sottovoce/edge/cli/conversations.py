"""``sotto chat``."""

from __future__ import annotations

import dataclasses
import os
import secrets
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from sottovoce.core.errors import InvalidInput, NotFound, NotReady, SottovoceError
from sottovoce.core.platform.console import Command, plain, print_json, tell
from sottovoce.core.rpc.limits import LARGEST_PROMPT, MOST_TURNS
from sottovoce.core.rpc.streams import Pieces
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Client, local, reach, remote
from sottovoce.edge.cli.common import (
    Line,
    answered,
    at,
    interruptible,
    load_config,
    numbered,
    privacy_options,
    read_lines,
    read_texts,
    text_argument,
)
from sottovoce.edge.cli.privatize import Preview, note
from sottovoce.edge.config import Config
from sottovoce.edge.http.endpoints import read_key
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation


def sampling_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the sampling options, which the function gets as ``sampling``, --upstream and --show."""

    @wraps(function)
    def with_sampling(
        *given: Any, max_tokens: int, temperature: float | None, seed: int | None, **more: Any
    ) -> None:
        sampling = chats.Sampling(max_tokens=max_tokens, temperature=temperature, seed=seed)
        function(*given, sampling=sampling, **more)

    for option in (
        click.option(
            "--show",
            "shown",
            is_flag=True,
            help="Print the privatised text before it leaves, and the answer as it arrived.",
        ),
        click.option("--upstream", default="", help="URL of a server with OpenAI's API."),
        click.option(
            "--stop", "stops", multiple=True, help="Text that ends the answer; may be repeated."
        ),
        click.option("--seed", type=click.IntRange(min=0), help="Seed of the model's choices."),
        click.option(
            "--temperature",
            type=click.FloatRange(0, 2),
            help="How freely the model chooses, up to 2.  [default: the model's own]",
        ),
        click.option(
            "--max-tokens",
            type=click.IntRange(min=0),
            default=0,
            help="Longest answer, in tokens.  [default: the model's own]",
        ),
    ):
        with_sampling = option(with_sampling)
    return with_sampling


_MOST_DOUBTS: Final = 10
"""Words of an answer that are named as unsure."""


def answering(config: Config, upstream: str) -> Client:
    """Return a client of the running agent if there is one and no ``upstream``.

    Otherwise the services answer in this process.
    """
    return local(asking(config, upstream)) if upstream else reach(config)


def asking(config: Config, upstream: str) -> Config:
    """Return the settings with ``upstream``, unless it is empty, as the server.

    Another server must not get the configured server's key and model, so both are removed.
    """
    chat = config.chat
    if not upstream:
        return config
    if chat.upstream and not _same(chat.upstream, upstream):
        chat = dataclasses.replace(chat, key_file=None, model="")
    return dataclasses.replace(config, chat=dataclasses.replace(chat, upstream=upstream))


def _same(one: str, other: str) -> bool:
    """Return whether two URLs have the same scheme and host."""
    try:
        return urlsplit(one)[:2] == urlsplit(other)[:2]
    except ValueError:
        return False


def show(
    events: Generator[chats.ChatResponse, None, None]
    | Generator[chats.CompleteResponse, None, None],
    *,
    shown: bool,
    as_json: bool,
    part: Callable[[str], object] = lambda text: None,
) -> str:
    """Print an answer and return its text.

    Args:
        events: the agent's events; closed at the end.
        shown: also print the received text, on standard error.
        as_json: print one object when the answer is complete.
        part: called with every piece, the only way to keep the text of an interrupted answer.
    """
    safe = plain if sys.stdout.isatty() else str
    departed, ended, text = chats.Departed(), chats.Answered(), Pieces()
    with closing(events):
        for event in events:
            match event.WhichOneof("event"):
                case "departed":
                    departed = event.departed
                case "delta_text":
                    text.add(event.delta_text)
                    part(event.delta_text)
                    if not as_json:
                        click.echo(safe(event.delta_text), nl=False)
                        sys.stdout.flush()
                case "answered":
                    ended = event.answered
    if as_json:
        print_json(views.answer(departed, text.text(), ended))
        return text.text()
    click.echo()
    if shown:
        _note("came", ended.came)
        _note("back", ", ".join(f"{each.came} -> {each.shown}" for each in ended.restored))
        if ended.addresses_kept:
            _note("kept", f"{ended.addresses_kept} addresses as they came, see docs/generation.md")
        _note("charged", f"{departed.charged:g} eta")
    _note("unsure", _doubts([each.came for each in ended.doubtful]))
    return text.text()


def _doubts(came: Sequence[str]) -> str:
    """Name the words that were left as they arrived, but may come from surrogates."""
    more = f" and {len(came) - _MOST_DOUBTS} more" if len(came) > _MOST_DOUBTS else ""
    return f"{', '.join(came[:_MOST_DOUBTS])}{more}" if came else ""


def _note(name: str, text: str) -> None:
    note(name, plain(text, line=True))


@click.command("chat", cls=Command)
@click.option("--model", default="", help="An adapter, or the server's name for a model.")
@click.option("--system", default="", help="Instructions to the model; privatised as well.")
@sampling_options
@privacy_options
def chat_command(
    model: str,
    system: str,
    sampling: chats.Sampling,
    stops: tuple[str, ...],
    upstream: str,
    shown: bool,
    privacy: agent.PrivacyOptions,
    as_json: bool,
) -> None:
    """Talk with a model in the cloud, one turn a line; from a terminal or from a pipe.

    The device replaces the personal data that it finds before a turn leaves, and puts it back into
    the answer. The answering server sees everything else, and names that the device misses:
    docs/generation.md. Ctrl-C ends an answer, Ctrl-D the conversation.
    """
    asked = chats.ChatRequest(
        model=model,
        privacy=privacy,
        conversation=secrets.token_hex(16),
        sampling=sampling,
        stops=stops,
    )
    if system:
        asked.turns.add(role=generation.ROLE_SYSTEM, text=system)
    config = load_config()
    with answering(config, upstream) as client:
        preview = Preview(client, shown=shown, as_json=as_json, ask=config.chat.ask_first)
        talk = _Talk(client, asked, preview, shown=shown, as_json=as_json)
        if sys.stdin.isatty():
            talk.with_a_person()
        else:
            talk.with_a_pipe(read_lines(None))


@dataclass(eq=False)
class _Talk:
    """A conversation with its turns so far."""

    client: Client
    asked: chats.ChatRequest
    preview: Preview
    _: KW_ONLY
    shown: bool
    as_json: bool

    def with_a_person(self) -> None:
        """Talk until Ctrl-D; print errors and go on."""
        for text in _typed():
            try:
                self._turn(text)
            except KeyboardInterrupt:
                click.echo("\n(ended; Ctrl-D ends the conversation)", err=True)
            except SottovoceError as error:
                tell(error)

    def with_a_pipe(self, lines: Iterator[Line]) -> None:
        """Answer lines until the pipe ends or an error occurs."""
        for line in lines:
            try:
                self._turn(line.text)
            except SottovoceError as error:
                raise numbered(error, line.place) from error

    def _turn(self, text: str) -> None:
        """Add a turn and its answer, or the received part of an interrupted answer.

        A turn that cannot be answered, or is not to leave, is removed.
        """
        turns = self.asked.turns
        turns.add(role=generation.ROLE_USER, text=text)
        _shorten(self.asked)
        parts: list[str] = []
        try:
            if not self.preview.passes(self.asked):
                return
            show(
                interruptible(partial(self.client.chat.Chat, self.asked)),
                shown=self.shown,
                as_json=self.as_json,
                part=parts.append,
            )
        finally:
            if parts:
                turns.add(role=generation.ROLE_ASSISTANT, text="".join(parts))
            else:
                turns.pop()


def _typed() -> Iterator[str]:
    with suppress(ImportError):  # with it, `input` has line editing and history
        import readline  # noqa: F401
    while True:
        try:
            text = input("> ")
        except EOFError:
            click.echo(err=True)
            return
        except KeyboardInterrupt:
            click.echo("\n(Ctrl-D ends the conversation)", err=True)
            continue
        if text.strip():
            yield text


def _shorten(asked: chats.ChatRequest) -> None:
    """Drop the oldest turns if there are too many, but keep the system turn."""
    turns = asked.turns
    first = 1 if turns[0].role == generation.ROLE_SYSTEM else 0
    while len(turns) > first + 1 and (
        len(turns) > MOST_TURNS or sum(len(turn.text.encode()) for turn in turns) > LARGEST_PROMPT
    ):
        del turns[first]


@click.command("generate", cls=Command)
@click.argument("name")
@text_argument
@sampling_options
@privacy_options
def generate_command(
    name: str,
    text: str | None,
    source: Path | None,
    sampling: chats.Sampling,
    stops: tuple[str, ...],
    upstream: str,
    shown: bool,
    privacy: agent.PrivacyOptions,
    as_json: bool,
) -> None:
    """Have the adapter NAME continue TEXT, or one text a line; each is privatised first.

    By default, texts are privatised as the adapter's examples were. With --upstream, NAME is that
    server's name for a model. Prefer --input or stdin to TEXT: other users of the machine can see a
    command's arguments while it runs.
    """
    asked = chats.CompleteRequest(
        model=name,
        privacy=privacy,
        sampling=sampling,
        stops=stops,
    )
    lines, config = read_texts(text, source), load_config()
    with answering(config, upstream) as client:
        preview = Preview(client, shown=shown, as_json=as_json, ask=config.chat.ask_first)
        for number, line in enumerate(lines, 1):
            asked.text, asked.agreed = line.text, False
            with at(line):
                if not preview.passes(asked):
                    continue
                events = interruptible(partial(client.chat.Complete, asked))
                show(events, shown=shown, as_json=as_json)
            answered(number)


_HERE = "127.0.0.1,localhost,::1"


@click.command(
    "run",
    cls=Command,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("program", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run_command(program: str | None, arguments: tuple[str, ...], as_json: bool) -> None:
    """Run PROGRAM as an OpenAI client of the running agent.

    PROGRAM replaces this command's process, so its exit code is returned. OPENAI_BASE_URL (and
    OPENAI_API_BASE) holds the OpenAI endpoint's address, and OPENAI_API_KEY its key. NO_PROXY gets
    this machine's addresses, because programs send clear text to the OpenAI endpoint. With --json,
    print these variables, key included, and run nothing.
    """
    if program is None and not as_json:
        raise InvalidInput("no program is named", fix="give one, or --json", subject="program")
    config = load_config()
    with remote(config) as client:
        endpoint = client.agent.GetStatus(agent.GetStatusRequest()).openai_address
    if not endpoint:
        raise NotReady(
            "the running agent has no OpenAI endpoint",
            fix="start it with `sotto serve --openai 127.0.0.1:8472`",
            subject="openai",
        )
    url = f"http://{endpoint}/v1"
    told = {
        "OPENAI_BASE_URL": url,
        "OPENAI_API_BASE": url,
        "OPENAI_API_KEY": read_key(config.agent.state),
    }
    for name in ("NO_PROXY", "no_proxy"):
        own = os.environ.get(name)
        # "*" means all hosts only if it stands alone.
        told[name] = own if own == "*" else ",".join(filter(None, (own, _HERE)))
    if as_json or program is None:
        print_json(told)
        return
    try:
        os.execvpe(program, [program, *arguments], os.environ | told)
    except OSError as error:
        raise NotFound(
            f"cannot run {program}: {error.strerror}", fix="check its name", subject="program"
        ) from error
