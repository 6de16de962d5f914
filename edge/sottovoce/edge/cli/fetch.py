"""``sotto fetch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from sottovoce.core.errors import InvalidInput, NotReady, SottovoceError
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    json_option,
    print_json,
    progress_bar,
)
from sottovoce.edge.cli.client import in_process
from sottovoce.edge.cli.common import load_config

if TYPE_CHECKING:
    from sottovoce.edge.tasks.agent import Agent

__all__ = ["command"]


@click.command("fetch", cls=Command)
@click.argument("adapter")
@click.option("--roll-back", is_flag=True, help="Go back to the version before the one in use.")
@click.option("--versions", is_flag=True, help="List the versions on this device.")
@click.option(
    "--follow/--no-follow",
    default=None,
    help="Have the agent fetch new versions by itself from now on, or no longer. The cloud learns"
    " when the device is on.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    adapter: str,
    roll_back: bool,
    versions: bool,
    follow: bool | None,
    as_json: bool,
) -> None:
    """Bring ADAPTER home, or its newest version, so that this device answers itself.

    `sotto predict` then needs no cloud: nothing is released, sent or charged. Also brings the
    bundle's encoder, if this device has none. Needs a provider who hands adapters out. A running
    agent takes the new version up by itself; if anything fails, the old one goes on answering.
    Whoever gets hold of the device gets the adapter, and can test what it was trained on.
    """
    if roll_back + versions + (follow is not None) > 1:
        raise InvalidInput(
            "more than one of --roll-back, --versions and --follow or --no-follow is given",
            fix="give one of them",
        )
    with in_process(load_config(ctx)) as device:
        if versions:
            found = device.home.versions(adapter)
            if as_json:
                print_json({"versions": [{"version": v, "in_use": used} for v, used in found]})
            for version, used in () if as_json else found:
                click.echo(f"{'*' if used else ' '} {version}")
            return
        if roll_back:
            version = device.home.roll_back(adapter)
            if as_json:
                print_json({"version": version})
            else:
                click.echo(f"{adapter} answers with version {version[:16]} again")
            return
        if follow is False:  # with the cloud away, too
            device.home.follow(adapter, False)
            if as_json:
                print_json({"followed": False})
            else:
                click.echo(f"{adapter} is followed no longer")
            return
        if_interrupted(
            f"what has arrived is kept, and {adapter} answers as before",
            f"run `sotto fetch {adapter}` again to go on",
        )
        with progress_bar() as bar:
            task = bar.add_task("fetching", total=None, note="")

            def progress(done: int, total: int) -> None:
                bar.update(task, completed=done >> 10, total=total >> 10, note="KiB")

            fetched = device.home.fetch(adapter, progress=progress)
            missing = _complete(device, progress)
        if follow:
            device.home.follow(adapter, True)
    if as_json:
        print_json(
            {
                "version": fetched.version,
                "bytes": fetched.bytes,
                "up_to_date": fetched.up_to_date,
                "encoder": missing is None,
            }
        )
    elif fetched.up_to_date:
        click.echo(f"{adapter} is up to date (version {fetched.version[:16]})")
    else:
        size = f"{fetched.bytes / 1e6:.1f} MB"
        click.echo(f"{adapter} is at home (version {fetched.version[:16]}, {size})")
    if missing is not None:
        click.echo(
            f"this device cannot answer with {adapter} yet: {missing.problem}\n"
            f"  fix: {missing.fix}; until then: `sotto predict {adapter} --where cloud`",
            err=True,
        )


def _complete(device: Agent, progress: Callable[[int, int], None]) -> SottovoceError | None:
    """Fetch the encoder of the bundle in use, if this device has none; return why it cannot."""
    try:
        device.home.encoder()
    except NotReady as error:
        from sottovoce.edge.client.pull import pull

        pulled = device.config.bundle.pulled.resolve()
        if pulled not in device.engine.current().bundle.folder.resolve().parents:
            return error  # linked by hand: a pull would move the owner's link
        try:
            pull(
                device.cloud,
                device.config.bundle,
                wanted=device.engine.current().bundle.id,
                encoder=True,
                progress=lambda _, done, total: progress(done, total),
            )
        except SottovoceError as refused:
            return refused
    return None
