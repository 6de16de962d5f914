"""``sotto apps``: which apps may ask the agent, and how much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, print_json, print_table
from sottovoce.core.platform.files import atomic
from sottovoce.edge.cli.common import PATH, load_config, open_state, say
from sottovoce.edge.config import Config
from sottovoce.edge.state.apps import Apps, Hides
from sottovoce.edge.tasks.spending_report import amount

_F = TypeVar("_F", bound=Callable[..., Any])


def _hiding_options(function: _F) -> _F:
    """Add the options for an app's words to hide, in addition to the owner's choices."""
    for option in (
        click.option(
            "--hide-pattern",
            "patterns",
            multiple=True,
            metavar="NAME=EXPRESSION",
            help="Also hide what a regular expression matches; may be repeated.",
        ),
        click.option(
            "--hide-words", "words", multiple=True, help="Also hide a word; may be repeated."
        ),
        click.option(
            "--hide",
            "kinds",
            multiple=True,
            help="Also hide a kind, such as facts, under the policy `personal`; may be repeated.",
        ),
    ):
        function = option(function)
    return function


@click.group("apps")
def command() -> None:
    """Give each app of this device a separate token, with limits.

    A running agent applies changes from the next message on. With agent.apps = true every call
    needs a token. An app may then privatize, classify, embed, chat and complete; only the owner may
    do everything else. The OpenAI endpoint accepts apps' tokens in any case.
    """


@command.command("new", cls=Command)
@click.argument("name")
@click.option(
    "--calls-a-minute", type=int, default=0, help="Calls a minute, at most.  [default: no limit]"
)
@click.option(
    "--a-day",
    type=float,
    default=0.0,
    help="Sum of eta that the app may spend a day (UTC), as in the ledger.  [default: no limit]",
)
@click.option(
    "--token-file",
    type=PATH,
    help="Write the token into this file, mode 600, and do not show it.",
)
@_hiding_options
def new(
    name: str,
    calls_a_minute: int,
    a_day: float,
    token_file: Path | None,
    kinds: tuple[str, ...],
    words: tuple[str, ...],
    patterns: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a token for the app NAME. The token is not kept, and not shown again.

    An app may hide more than the owner, and never less.
    """
    config = load_config()
    if token_file is not None and token_file.exists():
        raise InvalidInput(
            f"{token_file} is there", fix="name a file that is not", subject="token_file"
        )
    with _apps(config) as apps:
        token = apps.new(name, calls_a_minute, a_day, Hides(kinds, words, patterns))
        if token_file is not None:
            try:
                with atomic(token_file) as file:
                    file.write(f"{token}\n".encode())
            except BaseException:
                apps.remove(name)  # its token was not handed out
                raise
    if as_json:
        print_json({"name": name} | ({"token": token} if token_file is None else {}))
        return
    click.echo(token if token_file is None else f"the token of {name} is in {token_file}")
    if not config.agent.apps:
        click.echo(
            "the socket asks no app for it yet: `sotto config set agent.apps true`", err=True
        )


@command.command("hide", cls=Command)
@click.argument("name")
@_hiding_options
@click.option("--afresh", is_flag=True, help="First remove everything that the app hid.")
def hide(
    name: str,
    kinds: tuple[str, ...],
    words: tuple[str, ...],
    patterns: tuple[str, ...],
    afresh: bool,
    as_json: bool,
) -> None:
    """Make the app NAME hide more than the owner does, from its next text on.

    With --afresh alone, the app hides exactly as much as the owner.
    """
    with _apps(load_config()) as apps:
        had = Hides() if afresh else apps.named(name).hides
        hides = Hides(
            _joined(had.kinds, kinds), _joined(had.words, words), _joined(had.patterns, patterns)
        )
        apps.hide(name, hides)
    say(
        {"name": name} | _hides(hides),
        f"{name} hides {_counted(hides) or 'no more than the owner'}",
    )


@command.command("list", cls=Command)
def list_(as_json: bool) -> None:
    """List the apps, their limits, and each app's spending today (UTC)."""
    with _apps(load_config()) as apps:
        found = apps.all()
    if as_json:
        for app, spent in found:
            print_json(
                {
                    "name": app.name,
                    "calls_a_minute": app.calls_a_minute,
                    "a_day": app.a_day,
                    "spent_today": spent,
                }
                | _hides(app.hides)
            )
        return
    rows = [
        (
            app.name,
            _limit(app.calls_a_minute),
            _limit(app.a_day),
            amount(spent),
            _counted(app.hides) or "-",
        )
        for app, spent in found
    ]
    if rows:
        columns = ("name", "calls a minute", "eta a day", "eta spent today", "also hides")
        print_table(columns, rows, ("also hides", "calls a minute"))
    else:
        click.echo("no apps; `sotto apps new NAME` makes a token for one", err=True)


@command.command("rm", cls=Command)
@click.argument("name")
def rm(name: str, as_json: bool) -> None:
    """Revoke the token of the app NAME; its open calls end with their next message.

    Its earlier releases stay released and charged.
    """
    with _apps(load_config()) as apps:
        apps.remove(name)
    say({"name": name}, f"{name} may ask no more")


@contextmanager
def _apps(config: Config) -> Iterator[Apps]:
    with open_state(config) as store:
        yield Apps(store)


def _limit(number: float) -> str:
    return amount(number) if number else "-"


def _joined(had: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*had, *more)))


def _hides(hides: Hides) -> dict[str, list[str]]:
    return {"hide": [*hides.kinds], "words": [*hides.words], "patterns": [*hides.patterns]}


def _counted(hides: Hides) -> str:
    """Return the kinds, and the number of words and patterns, which may be private."""
    counts = ((len(hides.words), "words"), (len(hides.patterns), "patterns"))
    return ", ".join((*hides.kinds, *(f"{count} {what}" for count, what in counts if count)))
