"""Display of streamed answers, for ``sotto chat`` and ``sotto generate``.

An answer comes from an untrusted server, and a terminal obeys control sequences. So only plain text
reaches the terminal. Standard output gets only the answer, or its JSON.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from sottovoce.core.platform.console import plain, print_json
from sottovoce.core.rpc.streams import Pieces
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Backend, backend, in_process
from sottovoce.edge.config import Config
from sottovoce.v1 import edge_chat_pb2 as chats

__all__ = ["answering", "asking", "sampling", "sampling_options", "show"]

_F = TypeVar("_F", bound=Callable[..., Any])


def sampling_options(function: _F) -> _F:
    """Add the sampling options, --upstream and --show."""
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
    """Return the sampling settings for these options."""
    return chats.Sampling(max_tokens=max_tokens, temperature=temperature, seed=seed)


def answering(config: Config, upstream: str) -> AbstractContextManager[Backend]:
    """Return the backend that answers.

    It is the running agent, or its parts in this process. With ``upstream``, it is always its
    parts.
    """
    return in_process(asking(config, upstream)) if upstream else backend(config)


def asking(config: Config, upstream: str) -> Config:
    """Return the settings with ``upstream`` as the server, if it is given.

    Another server must not get the key and model of the configured one, so both are removed.
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
        shown: also print the released and the received text, on standard error.
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
