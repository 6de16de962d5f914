"""``sotto move-key``."""

from __future__ import annotations

import json

import click

from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.cli.config import place, write
from sottovoce.edge.cli.owner_check import not_as_root
from sottovoce.edge.state.device_key import PLACES
from sottovoce.edge.tasks.moving_key import copy_key, leave_others

__all__ = ["command"]

_SETTING = "agent.key_place"


@click.command("move-key", cls=Command)
@click.argument("there", metavar="PLACE", type=click.Choice(list(PLACES)))
@json_option
@click.pass_context
def command(ctx: click.Context, there: str, as_json: bool) -> None:
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
            write(config, {_SETTING: json.dumps(there)})
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
