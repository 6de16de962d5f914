"""``sotto list``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    print_json,
    print_table,
    progress_bar,
)
from sottovoce.core.platform.files import atomic
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import parts, reach
from sottovoce.edge.cli.common import PATH, load_config, say
from sottovoce.edge.state.outbox import ENDED, standing
from sottovoce.edge.tasks.adapters import LARGEST, join, share
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent


@click.command("list", cls=Command)
def list_command(as_json: bool) -> None:
    """List the adapters that were customised here, the newest first.

    Shows the version in use of each name, and versions in training; `sotto show NAME` lists all.
    The column `corrections` counts those that wait on this device or are in training (`sotto
    corrections NAME`).
    """
    with reach(load_config()) as client:
        status: agent.GetStatusResponse = client.agent.GetStatus(agent.GetStatusRequest())
    records = status.customizations
    named: dict[str, agent.Customization] = {}
    for record in views.by_standing(records):
        named.setdefault(record.adapter, record)
    present = {record.id for record in named.values()}
    shown = [each for each in records if each.id in present or each.state not in ENDED]
    if as_json:
        print_json(
            {
                "adapters": [
                    views.customization(each)
                    | {"corrections": views.corrections(status, each.adapter)}
                    for each in shown
                ]
            }
        )
        return
    if not shown:
        click.echo("no adapters yet: `sotto customize NAME --input FILE` trains one")
        return
    print_table(
        ("name", "id", "state", "examples", "accuracy", "level", "corrections", "made"),
        [
            (
                each.adapter,
                each.id[:8],
                standing(each),
                f"{each.examples:,}",
                views.accuracy(each),
                each.privacy.level or "-",
                f"{sum(views.corrections(status, each.adapter).values()):,}",
                views.day(each.create_time),
            )
            for each in shown
        ],
        ("made", "corrections", "examples"),
    )


@click.command("show", cls=Command)
@click.argument("name")
def show_command(name: str, as_json: bool) -> None:
    """Show the adapter NAME and its versions, the newest first."""
    with reach(load_config()) as client:
        status: agent.GetStatusResponse = client.agent.GetStatus(agent.GetStatusRequest())
    customized = status.customizations
    kept = views.corrections(status, name)
    records = [each for each in customized if each.adapter == name]
    if not records:
        raise NotFound(f"no adapter {name!r} on this device", fix="see `sotto list`", subject=name)
    present = views.by_standing(records)[0]
    if as_json:
        versions = [views.customization(each) for each in records]
        print_json({"name": name, "present": present.id, "versions": versions, "corrections": kept})
        return
    shown = views.customization(present)
    privacy = ", ".join(value for value in shown["privacy"].values() if value)
    shown |= {"adapter": name, "privacy": privacy}
    for key, value in shown.items():
        if value not in ("", 0, 0.0, False):
            click.echo(f"{key.replace('_', ' '):20}{value}")
    if any(kept.values()):
        click.echo(f"{'corrections':20}{kept['waiting']:,} wait, {kept['taken']:,} in training")
    click.echo()
    print_table(
        ("", "version", "state", "examples", "accuracy", "made"),
        [
            (
                "*" if each.id == present.id else "",
                each.id[:8],
                standing(each),
                f"{each.examples:,}",
                views.accuracy(each),
                views.day(each.create_time),
            )
            for each in records
        ],
    )


@click.command("cancel", cls=Command)
@click.argument("name")
def cancel_command(name: str, as_json: bool) -> None:
    """End the newest training of the adapter NAME.

    From then on nothing more of this training leaves this device, and the cloud is asked to stop.
    If the cloud does not confirm, this command fails; run it again. Earlier releases stay released
    and charged.
    """
    with reach(load_config()) as client:
        request = adapters.CancelCustomizationRequest(adapter=name)
        record: agent.Customization = client.adapters.CancelCustomization(request).customization
    say(views.customization(record), f"{name} ({record.id[:8]}) is cancelled")


@click.command("rollback", cls=Command)
@click.argument("name")
@click.argument("version", required=False, default="")
def rollback_command(name: str, version: str, as_json: bool) -> None:
    """Go back to an earlier version of the adapter NAME: VERSION, or else the previous version.

    VERSION is an id from `sotto show NAME`, or the start of an id. It may also be a later version
    that was rolled back. The cloud keeps earlier versions, up to the limit of past jobs that its
    provider set.
    """
    with reach(load_config()) as client:
        request = adapters.RollBackAdapterRequest(adapter=name, id=version)
        record: agent.Customization = client.adapters.RollBackAdapter(request).customization
    if as_json:
        print_json(views.customization(record))
    else:
        made = views.day(record.create_time)
        click.echo(f"{name} is version {record.id[:8]} of {made}, {record.examples:,} examples")


@click.command("rm", cls=Command)
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed without a terminal.")
@click.option(
    "--force", "-f", is_flag=True, help="Delete it here even if the cloud does not confirm."
)
def rm_command(name: str, yes: bool, force: bool, as_json: bool) -> None:
    """Delete the adapter NAME with all its versions, here and in the cloud.

    Cannot be undone. The releases for its training stay released and charged.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput("deleting must be confirmed", fix="add --yes", subject="yes")
        click.confirm(f"Delete {name} and all its versions?", abort=True, err=True)
    with reach(load_config()) as client:
        request = adapters.DeleteAdapterRequest(adapter=name, force=force)
        deleted: int = client.adapters.DeleteAdapter(request).deleted
    say(
        {"adapter": name, "deleted": deleted},
        f"deleted {name} ({deleted} version{'s' * (deleted != 1)})",
    )


@click.command("share", cls=Command)
@click.argument("adapter")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write (mode 0600); carry it to the other devices yourself.",
)
def share_command(adapter: str, output: Path, as_json: bool) -> None:
    """Write a file that lets your other devices use ADAPTER and train it further (`sotto join`).

    The file holds the adapter's name and labels, and their ids in the cloud. Keep it secret. The
    other devices need the same tenant, and each needs a separate token.
    """
    with parts(load_config()) as device:
        data = share(device.outbox, adapter)
    with atomic(output) as file:
        file.write(data)
    say(
        {"adapter": adapter, "output": str(output)},
        f"{output} is for your other devices: `sotto join {output.name}` there",
    )


@click.command("join", cls=Command)
@click.argument("source", metavar="FILE", type=PATH)
@click.option("--name", default="", help="The adapter's name on this device.  [default: as there]")
def join_command(source: Path, name: str, as_json: bool) -> None:
    """Use an adapter of another device of yours: read the FILE that `sotto share` wrote there.

    `sotto predict`, `fetch` and `customize --add` then use it as if it were trained here. Sends
    nothing.
    """
    try:
        with source.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {source}: {error.strerror}", fix="give what `sotto share` wrote"
        ) from error
    with parts(load_config()) as device:
        record = join(device.store, device.outbox, data, name)
    say(
        {"adapter": record.adapter, "adapter_id": record.adapter_id},
        f"{record.adapter} is known here; bring it home with `sotto fetch`",
    )


@click.command("fetch", cls=Command)
@click.argument("adapter")
@click.option("--roll-back", is_flag=True, help="Go back to the version before the one in use.")
@click.option("--versions", is_flag=True, help="List the versions on this device.")
@click.option(
    "--follow/--no-follow",
    default=None,
    help="Whether the agent fetches new versions by itself from now on. If so, the cloud learns"
    " when the device is on.",
)
def fetch_command(
    adapter: str,
    roll_back: bool,
    versions: bool,
    follow: bool | None,
    as_json: bool,
) -> None:
    """Fetch ADAPTER, or its newest version, so that this device answers by itself.

    `sotto predict` then needs no cloud: nothing is released, sent or charged. The bundle's encoder
    is fetched too, if this device has none. If the encoder or the adapter cannot be fetched, the
    old version goes on answering. A running agent uses the new version at once. The provider must
    hand adapters out. Anyone with access to the device can test which examples the adapter was
    trained on.
    """
    if roll_back + versions + (follow is not None) > 1:
        raise InvalidInput(
            "more than one of --roll-back, --versions and --follow or --no-follow is given",
            fix="give one of them",
        )
    with parts(load_config()) as device:
        if versions:
            found = device.home.versions(adapter)
            if as_json:
                print_json({"versions": [{"version": v, "in_use": used} for v, used in found]})
            for version, used in () if as_json else found:
                click.echo(f"{'*' if used else ' '} {version}")
            return
        if roll_back:
            version = device.home.roll_back(adapter)
            say({"version": version}, f"{adapter} answers with version {version[:16]} again")
            return
        if follow is False:  # with the cloud away, too
            device.home.follow(adapter, False)
            say({"followed": False}, f"{adapter} is followed no longer")
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
        if follow:
            device.home.follow(adapter, True)
    if as_json:
        print_json(asdict(fetched))
        return
    if fetched.encoder_bytes:
        size = f"{fetched.encoder_bytes / 1e6:.1f} MB"
        click.echo(f"the bundle's encoder, which adapters need, is on this device ({size})")
    if fetched.up_to_date:
        click.echo(f"{adapter} is up to date (version {fetched.version[:16]})")
    else:
        size = f"{fetched.bytes / 1e6:.1f} MB"
        click.echo(f"{adapter} is at home (version {fetched.version[:16]}, {size})")
