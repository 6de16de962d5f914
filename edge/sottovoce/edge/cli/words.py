"""``sotto words``: words that never leave, and words that pass under the policy `personal`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import click

from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.common import load_config, not_as_root
from sottovoce.edge.config import Config
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import key_in
from sottovoce.edge.state.words import Lists, Words

__all__ = ["command"]


@click.group("words")
def command() -> None:
    """Say which words never leave, and which pass under the policy `personal`.

    A word may be a phrase. Case does not count. Hidden words win over allowed ones, and are hidden
    under every policy. A running agent goes by the lists with the next text. They are sealed in the
    agent's state. `hide.words` and `hide.allow` in the configuration count as well.
    """


@command.command("allow", cls=Command)
@click.argument("words", nargs=-1, required=True)
@json_option
@click.pass_context
def allow(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Let WORDS pass under the policy `personal`. Other policies do not read this list."""
    config = load_config(ctx)
    _change(config, words, as_json, "allow", Words.allow)
    if config.chat.policy != "personal":
        click.echo(
            f"conversations use the policy {config.chat.policy}, which lets no allowed word pass; "
            "choose personal with `sotto config set chat.policy personal`",
            err=True,
        )
    both = {word.casefold() for word in words} & {word.casefold() for word in config.hide.words}
    if both:
        click.echo(f"{len(both)} of them stay hidden by hide.words in the configuration", err=True)


@command.command("hide", cls=Command)
@click.argument("words", nargs=-1, required=True)
@json_option
@click.pass_context
def hide(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Let WORDS never pass, under any policy."""
    _change(load_config(ctx), words, as_json, "hide", Words.hide)


@command.command("rm", cls=Command)
@click.argument("words", nargs=-1, required=True)
@json_option
@click.pass_context
def rm(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Take WORDS out of both lists."""
    _change(load_config(ctx), words, as_json, "rm", Words.remove)


@command.command("list", cls=Command)
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """Show both lists, and the named patterns, those of the configuration among them."""
    config = load_config(ctx)
    with _words(config) as words:
        lists = words.lists()
    told = {
        "allow": [*config.hide.allow, *lists.allow],
        "hide": [*config.hide.words, *lists.hide],
        "patterns": [*config.hide.patterns],
    }
    if as_json:
        print_json(told)
        return
    if not any(told.values()):
        click.echo("no words yet: `sotto words hide WORD` adds one", err=True)
    for name, each in zip(("allow", "hide", "pattern"), told.values(), strict=True):
        click.echo("".join(f"{name}\t{word}\n" for word in each), nl=False)


_TOLD = {"allow": "allowed", "hide": "hidden", "rm": "taken out"}


def _change(
    config: Config,
    given: tuple[str, ...],
    as_json: bool,
    action: str,
    change: Callable[[Words, tuple[str, ...]], Lists],
) -> None:
    with _words(config) as words:
        change(words, given)
    if as_json:
        print_json({action: [*given]})
    else:
        click.echo(f"{len(given)} {_TOLD[action]}")


@contextmanager
def _words(config: Config) -> Iterator[Words]:
    not_as_root(config)
    with closing(Store.open(config.agent.state, key_in(config.agent.key_place))) as store:
        yield Words(store, config.hide.hiding)
