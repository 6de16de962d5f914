"""``sotto apps``: which apps may ask the agent, and how much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, json_option, print_json, print_table
from sottovoce.core.platform.files import atomic
from sottovoce.edge.cli.common import load_config, not_as_root
from sottovoce.edge.config import Config
from sottovoce.edge.state.apps import Apps
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import key_in

__all__ = ["command"]


@click.group("apps")
def command() -> None:
    """Give apps of this device tokens of their own, with limits; a running agent heeds them with
    the next message.

    With agent.apps = true every call needs such a token, and an app may privatize, classify,
    embed, chat and complete; all else stays the owner's. The doorway takes them in any case.
    """


@command.command("new", cls=Command)
@click.argument("name")
@click.option(
    "--calls-a-minute", type=int, default=0, help="How often it may ask.  [default: no limit]"
)
@click.option(
    "--a-day",
    type=float,
    default=0.0,
    help="What it may spend a day (UTC): sum of eta, as in the ledger.  [default: no limit]",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Write the token there, mode 600, and do not show it.",
)
@json_option
@click.pass_context
def new(
    ctx: click.Context,
    name: str,
    calls_a_minute: int,
    a_day: float,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Make a token for the app NAME. It is not kept, and not shown again."""
    config = load_config(ctx)
    if token_file is not None and token_file.exists():
        raise InvalidInput(
            f"{token_file} is there", fix="name a file that is not", subject="token_file"
        )
    with _apps(config) as apps:
        token = apps.new(name, calls_a_minute, a_day)
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


@command.command("list", cls=Command)
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the apps, their limits, and what each has spent today (UTC)."""
    with _apps(load_config(ctx)) as apps:
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
            )
        return
    rows = [
        (app.name, _limit(app.calls_a_minute), _limit(app.a_day), f"{spent:,.6g}")
        for app, spent in found
    ]
    if rows:
        print_table(("name", "calls a minute", "eta a day", "eta spent today"), rows)
    else:
        click.echo("no apps; `sotto apps new NAME` makes a token for one", err=True)


@command.command("rm", cls=Command)
@click.argument("name")
@json_option
@click.pass_context
def rm(ctx: click.Context, name: str, as_json: bool) -> None:
    """Take its token from the app NAME; what it has open ends with its next message.

    What it has released stays released, and charged.
    """
    with _apps(load_config(ctx)) as apps:
        apps.remove(name)
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"{name} may ask no more")


@contextmanager
def _apps(config: Config) -> Iterator[Apps]:
    not_as_root(config)
    with closing(Store.open(config.agent.state, key_in(config.agent.key_place))) as store:
        yield Apps(store)


def _limit(number: float) -> str:
    return f"{number:,.6g}" if number else "-"
