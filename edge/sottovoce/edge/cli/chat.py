"""``sotto chat``."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import click

from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.console import Command, json_option, tell
from sottovoce.core.rpc.limits import LARGEST_PROMPT, MOST_TURNS
from sottovoce.edge.cli import answers
from sottovoce.edge.cli.client import Backend
from sottovoce.edge.cli.common import load_config, numbered, privacy_options
from sottovoce.edge.cli.interruptible import interruptible
from sottovoce.edge.cli.lines import Line, read_lines
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

__all__ = ["command"]


@click.command("chat", cls=Command)
@click.option("--model", default="", help="An adapter, or what the server calls a model.")
@click.option("--system", default="", help="What the model is told first; privatised as well.")
@answers.sampling_options
@privacy_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    model: str,
    system: str,
    max_tokens: int,
    temperature: float | None,
    seed: int | None,
    stops: tuple[str, ...],
    upstream: str,
    shown: bool,
    level: str,
    mechanism: str,
    policy: str,
    as_json: bool,
) -> None:
    """Talk with a model in the cloud, one turn a line; from a terminal or from a pipe.

    Names, numbers and facts of a person are replaced before a turn leaves, and turned back in what
    comes. Everything else is seen by whoever answers: docs/generation.md. Ctrl-C ends an answer,
    Ctrl-D the conversation.
    """
    asked = chats.ChatRequest(
        model=model,
        privacy=agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy),
        conversation=secrets.token_hex(16),
        sampling=answers.sampling(max_tokens, temperature, seed),
        stops=stops,
    )
    if system:
        asked.turns.add(role=generation.ROLE_SYSTEM, text=system)
    with answers.answering(load_config(ctx), upstream) as device:
        talk = _Talk(device, asked, shown=shown, as_json=as_json)
        if sys.stdin.isatty():
            talk.with_a_person()
        else:
            talk.with_a_pipe(read_lines(None))


class _Talk:
    """A conversation with its turns so far."""

    def __init__(
        self, device: Backend, asked: chats.ChatRequest, *, shown: bool, as_json: bool
    ) -> None:
        self._device = device
        self._asked = asked
        self._shown = shown
        self._as_json = as_json

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

        A turn that cannot be answered is removed.
        """
        turns = self._asked.turns
        turns.add(role=generation.ROLE_USER, text=text)
        _shorten(self._asked)
        parts: list[str] = []
        try:
            answers.show(
                interruptible(partial(self._device.chat, self._asked)),
                shown=self._shown,
                as_json=self._as_json,
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
