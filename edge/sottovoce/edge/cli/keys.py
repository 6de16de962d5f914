"""``sotto move-key``."""

from __future__ import annotations

from contextlib import closing

import click

from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.common import load_config, not_as_root
from sottovoce.edge.cli.config import place, write
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import PLACES, key_in
from sottovoce.edge.state.noise_keys import NoiseKeys
from sottovoce.edge.tasks.moving_key import copy_key, leave_others

__all__ = ["move_key_command", "rotate_key_command"]

_SETTING = "agent.key_place"


@click.command("move-key", cls=Command)
@click.argument("there", metavar="PLACE", type=click.Choice(list(PLACES)))
@json_option
@click.pass_context
def move_key_command(ctx: click.Context, there: str, as_json: bool) -> None:
    """Have the key that seals this device's state lie in PLACE, and nowhere else.

    \b
    file        agent.key in the state folder
    credential  sottovoce.key, which systemd hands to the service alone; root
                makes it first, as this says where there is none
    keyring     that of your desktop session, by sottovoce-edge[keyring]; a
                machine without such a session has none

    No agent may run meanwhile. The key is copied, the setting agent.key_place is
    changed, and what opens the state from its new place is removed from the old
    one. Cut off in between, the same command goes on. A credential that is no
    longer used is root's to remove.
    """
    config = load_config(ctx)
    not_as_root(config)
    state = config.agent.state
    if config.agent.key_place != there:
        copy_key(state, config.agent.key_place, there)
        by_hand = f"set {_SETTING} to {there!r} there as whoever may; then run this again"
        try:
            write(config, {_SETTING: there})
        except ConfigError as error:
            raise ConfigError(
                f"the key is in both places now, and {place(config)} cannot be changed",
                fix=by_hand,
                subject=_SETTING,
            ) from error
        if load_config(ctx).agent.key_place != there:
            raise ConfigError(
                "the key is in both places now, and SOTTO_AGENT_KEY_PLACE overrides the setting",
                fix=by_hand.replace(" there ", " in the environment "),
                subject=_SETTING,
            )
    lay = leave_others(state, there)
    if as_json:
        removed = [name for name, left in lay.items() if not left]
        print_json({"place": there, "removed": removed, "left": [*filter(None, lay.values())]})
    else:
        for line in (f"the key of {state} lies here: {there}", *filter(None, lay.values())):
            click.echo(line)


@click.command("rotate-key", cls=Command)
@json_option
@click.pass_context
def rotate_key_command(ctx: click.Context, as_json: bool) -> None:
    """Replace the secret key of the noise; the old one is destroyed.

    From then on nobody, not even this device, can take the noise out of what was released before.
    A text released before is drawn afresh when it is released again, and charged again: who has
    both releases knows more of it than from either. A running agent takes the new key up with the
    next text. The key of the state, which seals this one, stays (`sotto move-key`); where it is a
    credential of the service, this says how to be run with it.
    """
    config = load_config(ctx)
    not_as_root(config)
    with closing(Store.open(config.agent.state, key_in(config.agent.key_place))) as store:
        epoch = NoiseKeys(store).rotate()
    if as_json:
        print_json({"epoch": epoch})
    else:
        click.echo(f"noise is now drawn from key {epoch}; the one before is destroyed")
