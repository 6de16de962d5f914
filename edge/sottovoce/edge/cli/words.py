"""``sotto words``: words that pass, or never do, under the policy `personal`."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.cli.config import write
from sottovoce.edge.config import Config

__all__ = ["command"]


@click.group("words")
def command() -> None:
    """Say which words pass under the policy `personal`, and which do not.

    Other policies do not read these lists. A word may be a phrase. Case does not count. What is
    hidden wins over what is allowed. A running agent goes by the lists after a restart.
    """


@command.command("allow", cls=Command)
@click.argument("words", nargs=-1, required=True)
@json_option
@click.pass_context
def allow(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Let WORDS pass under the policy `personal`, unless they are also hidden."""
    config = load_config(ctx)
    file = write(config, {"hide.allow": _with(config.hide.allow, words)})
    _told(f"{len(words)} allowed, in {file}", as_json, file, "allow", words)
    _warn(config)
    both = {word.casefold() for word in words} & {word.casefold() for word in config.hide.words}
    if both:
        click.echo(f"{len(both)} of them stay hidden; see `sotto words rm`", err=True)


@command.command("hide", cls=Command)
@click.argument("words", nargs=-1, required=True)
@json_option
@click.pass_context
def hide(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Let WORDS never pass under the policy `personal`."""
    config = load_config(ctx)
    file = write(config, {"hide.words": _with(config.hide.words, words)})
    _told(f"{len(words)} hidden, in {file}", as_json, file, "hide", words)
    _warn(config)


@command.command("rm", cls=Command)
@click.argument("words", nargs=-1, required=True)
@json_option
@click.pass_context
def rm(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Take WORDS out of both lists."""
    config = load_config(ctx)
    gone = {word.casefold() for word in words}
    lists = {"hide.words": config.hide.words, "hide.allow": config.hide.allow}
    known = {word.casefold() for each in lists.values() for word in each}
    if missing := [word for word in words if word.casefold() not in known]:
        raise InvalidInput(
            f"{missing[0]!r} is in neither list",
            fix="`sotto words list` shows both",
            subject="words",
        )
    kept = {name: [w for w in each if w.casefold() not in gone] for name, each in lists.items()}
    file = write(config, kept)
    _told(f"{len(words)} taken out, in {file}", as_json, file, "rm", words)


@command.command("list", cls=Command)
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """Show both lists, and the named patterns."""
    chosen = load_config(ctx).hide
    if as_json:
        told = {"allow": chosen.allow, "hide": chosen.words, "patterns": chosen.patterns}
        print_json({name: [*each] for name, each in told.items()})
        return
    for name, each in (("allow", chosen.allow), ("hide", chosen.words)):
        click.echo("".join(f"{name}\t{word}\n" for word in each), nl=False)
    click.echo("".join(f"pattern\t{pattern}\n" for pattern in chosen.patterns), nl=False)


def _with(listed: tuple[str, ...], words: tuple[str, ...]) -> list[str]:
    """Return the list with new words, each once in any case."""
    return [*{word.casefold(): word for word in (*words[::-1], *listed[::-1])}.values()][::-1]


def _warn(config: Config) -> None:
    if config.chat.policy != "personal":
        click.echo(
            f"conversations use the policy {config.chat.policy}, which does not read this list; "
            "allow personal with `sotto config set privacy.least_policy personal`, then choose it "
            "with `sotto config set chat.policy personal`",
            err=True,
        )


def _told(line: str, as_json: bool, file: Path, action: str, words: tuple[str, ...]) -> None:
    if as_json:
        print_json({"file": str(file), action: [*words]})
    else:
        click.echo(line)
