"""Shows an answer as it comes in: what ``sotto chat`` and ``sotto generate`` share.

Why it is here: an answer was written by a stranger, and a terminal obeys what it is sent, so
nothing but text reaches it. Standard output gets the answer, or its JSON, and nothing else.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from sottovoce.core.system.console import plain, print_json
from sottovoce.core.wire.pieces import Pieces
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Backend, backend, in_process
from sottovoce.edge.config import Config
from sottovoce.v1 import edge_chat_pb2 as chats

__all__ = ["answering", "asking", "sampling", "sampling_options", "show"]

_F = TypeVar("_F", bound=Callable[..., Any])


def sampling_options(function: _F) -> _F:
    """Adds what an answer may be asked with, --upstream and --show."""
    for option in (
        click.option("--show", "shown", is_flag=True, help="Also print what left and what came."),
        click.option("--upstream", default="", help="Server that speaks as OpenAI's do: its URL."),
        click.option("--stop", "stops", multiple=True, help="Ends the answer; may be repeated."),
        click.option("--seed", type=click.IntRange(min=0), help="Of the model's choices."),
        click.option(
            "--temperature",
            type=click.FloatRange(0, 2),
            help="How freely the model chooses, up to 2.  [default: the model's own]",
        ),
        click.option(
            "--max-tokens",
            type=click.IntRange(min=0),
            default=0,
            help="Of an answer, at most.  [default: the model's own]",
        ),
    ):
        function = option(function)
    return function


def sampling(max_tokens: int, temperature: float | None, seed: int | None) -> chats.Sampling:
    """What these options ask for."""
    return chats.Sampling(max_tokens=max_tokens, temperature=temperature, seed=seed)


def answering(config: Config, upstream: str) -> AbstractContextManager[Backend]:
    """Who answers: the running agent or its parts here; these where another server is named."""
    return in_process(asking(config, upstream)) if upstream else backend(config)


def asking(config: Config, upstream: str) -> Config:
    """With the server that a command names, if it does. What is configured for another server, its
    key above all, is not for this one."""
    chat = config.chat
    if not upstream:
        return config
    if chat.upstream and not _same(chat.upstream, upstream):
        chat = dataclasses.replace(chat, key_file=None, model="")
    return dataclasses.replace(config, chat=dataclasses.replace(chat, upstream=upstream))


def _same(one: str, other: str) -> bool:
    """Whether two addresses are of one server."""
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
    """Prints an answer and gives its text.

    Args:
        events: as the agent sends them; closed at the end.
        shown: print what left and what came as well, on standard error.
        as_json: print one object when all is there.
        part: is told every piece; of an answer that is broken off nobody else knows them.
    """
    safe = plain if sys.stdout.isatty() else str
    departed, ended, text = chats.Departed(), chats.Answered(), Pieces()
    with closing(events):
        for event in events:
            match event.WhichOneof("event"):
                case "departed":
                    departed = event.departed
                    if shown and not as_json:
                        _note("left", departed.turns[-1].released_text)
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
        _note("unsure", ", ".join(each.came for each in ended.doubtful))
        if ended.addresses_kept:
            _note("kept", f"{ended.addresses_kept} addresses as they came, see docs/generation.md")
        _note("charged", f"{departed.charged:g} eta")
    return text.text()


def _note(name: str, text: str) -> None:
    if text:
        click.echo(f"{name:>8}  {plain(text, line=True)}", err=True)
