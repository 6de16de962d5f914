"""What leaves of a text, shown before it does: each word, and what it is taken for."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import click

from sottovoce.core.platform.console import plain, print_json
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Client
from sottovoce.edge.cli.common import interruptible
from sottovoce.edge.tasks.privatize import Piece
from sottovoce.v1 import edge_chat_pb2 as chats

__all__ = ["Preview", "coloured", "hint", "note", "replaced"]

_COLOURS: Final = {"noise": "yellow", "draw": "cyan"}


class Preview:
    """Shows the requests of a command before they leave, and asks where the owner wants that.

    Args:
        client: the agent.
        shown: print what leaves.
        as_json: print it as one object, on standard output.
        ask: ask before the first message of a conversation leaves.
    """

    def __init__(self, client: Client, *, shown: bool, as_json: bool, ask: bool) -> None:
        self._client, self._shown, self._as_json = client, shown, as_json
        self._ask = ask and sys.stdin.isatty()

    def passes(self, request: chats.ChatRequest | chats.CompleteRequest) -> bool:
        """Show a request if that is wanted; return whether it may leave.

        Args:
            request: it is marked as agreed if the owner says so.

        Raises:
            See `Chat.chat`.
        """
        ask = self._ask and not request.agreed
        if not self._shown and not ask:
            return True
        departed = self._departed(request)
        if self._as_json:
            print_json({"leaves": [*_views(departed)]})
        else:
            _show(request, departed, whole=ask)
        if ask:
            request.agreed = click.confirm("Send it?", err=True)
            return request.agreed
        return True

    def _departed(self, request: chats.ChatRequest | chats.CompleteRequest) -> chats.Departed:
        asked = copy.deepcopy(request)
        asked.preview = asked.words = True
        chat = self._client.chat
        call = chat.Chat if isinstance(asked, chats.ChatRequest) else chat.Complete
        (event,) = interruptible(partial(call, asked))
        departed: chats.Departed = event.departed
        return departed


def _show(
    request: chats.ChatRequest | chats.CompleteRequest, departed: chats.Departed, *, whole: bool
) -> None:
    """Print the last turn, or all, and what gave way in them."""
    typed = (
        [turn.text for turn in request.turns]
        if isinstance(request, chats.ChatRequest)
        else [request.text]
    )
    turns = [*zip(typed, departed.turns, strict=True)]
    for text, turn in turns if whole else turns[-1:]:
        pieces = [*_pieces(text, turn)]
        note("leaves", "".join(map(coloured, pieces)))
        note("hidden", ", ".join(replaced(pieces)))


def _pieces(typed: str, turn: chats.DepartedTurn) -> Iterator[Piece]:
    end = 0
    for word in turn.words:
        yield Piece(turn.released_text[end : word.released_start])
        end = word.released_end
        yield Piece(
            turn.released_text[word.released_start : end],
            views.treatment_name(word).lower(),
            word.protected and not word.replaced,
            word.hides,
            typed[word.start : word.end],
        )
    yield Piece(turn.released_text[end:])


def _views(departed: chats.Departed) -> Iterator[dict[str, Any]]:
    for turn in departed.turns:
        yield views.turn(turn) | {"words": [*map(views.word, turn.words)]}


def coloured(piece: Piece) -> str:
    """Return a piece in one line, in the colour of what became of it."""
    shown, colour = plain(piece.text, line=True), _COLOURS.get(piece.became)
    return click.style(shown, fg=colour, underline=piece.kept or None) if colour else shown


def replaced(pieces: Iterable[Piece]) -> Iterator[str]:
    """Yield what each drawn word is taken for, once a word."""
    told = {
        piece.typed: f"{plain(piece.typed, line=True)} ({piece.hides})"
        for piece in pieces
        if piece.became == "draw"
    }
    yield from told.values()


def note(name: str, text: str) -> None:
    """Print a line about a request on standard error; the text is fit for a terminal."""
    if text:
        click.echo(f"{name:>8}  {text}", err=True)


def hint() -> None:
    """Tell a person at a terminal how to change what gives way."""
    click.echo(
        "\n`sotto words hide WORD` hides a word from now on; `sotto words allow WORD` lets it pass"
        " under personal."
    )
