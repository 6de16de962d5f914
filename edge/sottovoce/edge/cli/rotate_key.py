"""``sotto rotate-key``."""

from __future__ import annotations

from contextlib import closing

import click

from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.cli.owner_check import not_as_root
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import key_in
from sottovoce.edge.state.noise_keys import NoiseKeys

__all__ = ["command"]


@click.command("rotate-key", cls=Command)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
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
