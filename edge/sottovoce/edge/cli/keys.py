"""``sotto move-key`` and ``sotto rotate-key``.

The key of the state moves without a moment of loss. It is copied first, and then the setting is
changed. A key is removed from its old place only after the copy in the new place has opened the
database. After an interruption the key is in both places, and the same command continues.
"""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import click

from sottovoce.core.errors import ConfigError, SottovoceError
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.common import load_config, not_as_root
from sottovoce.edge.cli.config import place, write
from sottovoce.edge.state.database import Store, only_one
from sottovoce.edge.state.device_key import PLACES, key_in
from sottovoce.edge.state.noise_keys import NoiseKeys

__all__ = ["copy_key", "leave_others", "move_key_command", "rotate_key_command"]

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


def copy_key(state: Path, here: str, there: str) -> None:
    """Copy the key, so that it is in both places.

    Args:
        state: of no running agent.
        here: the key's present place, one of `PLACES`.
        there: the other place.

    Raises:
        NotReady: an agent runs, or a place cannot be asked.
        ConfigError: another key is in the other place.
        DataLoss: the key in the present place is not the key of the state.
    """
    with only_one(state):
        Store.open(state, key_in(here)).close()
        key_in(there).put(state, key_in(here).secret(state))


def leave_others(state: Path, there: str) -> dict[str, str]:
    """Remove the key from all other places, once it has opened the state from there.

    Returns:
        Other places that held the key, each with the steps left to another person; the text is
            empty where the key was removed.

    Raises:
        ConfigError: the key cannot be removed from another place. See `Store.open`; then nothing is
            removed.
    """
    lay = {}
    with only_one(state):
        Store.open(state, key_in(there)).close()
        secret = key_in(there).secret(state)
        for name in PLACES:
            other = key_in(name)
            held = None
            with suppress(SottovoceError):  # no key there, or no such place
                held = other.secret(state) if name != there else None
            if held == secret:
                try:
                    lay[name] = other.remove(state)
                except SottovoceError as error:
                    raise ConfigError(
                        f"the key lies here now: {there}; and still here: {other.told(state)}, "
                        f"where it could not be removed ({error.problem})",
                        fix=f"mend that, then run `sotto move-key {there}` again",
                        subject="agent.key_place",
                    ) from error
    return lay
