"""``sotto-cloud bundles``: bundles that machines fetch by themselves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from sottovoce.cloud.cli.options import (
    objects_option,
    on_database,
    say,
    state_option,
    store_option,
)
from sottovoce.cloud.store import bundles, check_objects, open_database
from sottovoce.cloud.store.bundles import BundleState, PublishedBundle
from sottovoce.cloud.store.database import Database, when
from sottovoce.core.errors import NotFound
from sottovoce.core.platform.console import (
    Command,
    folder,
    print_json,
    print_table,
    progress_bar,
)

_UNFINISHED = {BundleState.UPLOADING: "publish", BundleState.DELETING: "delete"}


@click.group("bundles")
def command() -> None:
    """Publish bundles for many machines, list and delete them.

    A published bundle lies in --objects. serve, replica, front and trainer accept its id as
    --bundle and fetch it themselves, so no folder must be copied to their machines.
    """


@command.command("publish", cls=Command)
@click.argument("bundle", metavar="FOLDER", type=folder)
@state_option
@store_option
@objects_option
def publish(bundle: Path, state: Path, store: str, objects: str, as_json: bool) -> None:
    """Publish the bundle in FOLDER, as `build-bundle` wrote it.

    The bundle is available once it is complete. To resume an interrupted publication, publish
    the same bundle again; stored files are not sent twice. Each machine that serves the bundle
    signs it with signing.key of its --state, unless `build-bundle --key` has signed it.
    """
    try:
        database = open_database(state, store, objects, create=False)
    except NotFound:  # before the first server start, which accepts the bundle's id
        database = open_database(state, store, objects)
    with closing(database), progress_bar(enabled=not as_json) as bar:
        task = bar.add_task("publishing", total=None, note="")

        def progress(name: str, done: int, total: int) -> None:
            bar.update(task, completed=done >> 10, total=total >> 10, note=f"KiB  {name}")

        bundles.shared(database)
        check_objects(database)
        published, sent = bundles.publish(database, bundle, progress)
    if as_json:
        print_json({**_view(published), "sent_bytes": sent})
    elif sent:
        click.echo(f"published as {published.id}, {sent / 1e6:.1f} MB sent; give --bundle that id")
    else:
        click.echo(f"was published as {published.id}; nothing had to be sent")


@command.command("list", cls=Command)
@on_database()
def list_(database: Database, as_json: bool) -> None:
    """List the published bundles, oldest first."""
    found = bundles.published(database)
    if as_json:
        print_json({"bundles": [_view(bundle) for bundle in found]})
        return
    columns = ("id", "backbone", "language", "size", "published", "state", "signed by")
    print_table(columns, [_row(bundle) for bundle in found], ("language", "published", "backbone"))
    for bundle in found:
        if bundle.state in _UNFINISHED:
            again = _UNFINISHED[bundle.state]
            click.echo(f"{bundle.id} is incomplete: {again} it again", err=True)


@command.command("delete", cls=Command)
@click.argument("bundle_id", metavar="ID")
@on_database(objects=True)
def delete(database: Database, bundle_id: str, as_json: bool) -> None:
    """Delete a published bundle, by the beginning of its id.

    The bundle can no longer be fetched. Running processes keep using their copy, which is
    removed when the next process starts on that machine.
    """
    gone = bundles.delete(database, bundle_id)
    say(as_json, {"id": gone.id, "deleted": True}, f"deleted {gone.id}")


def _view(bundle: PublishedBundle) -> dict[str, Any]:
    return {
        "id": bundle.id,
        "sha256": bundle.sha256,
        "state": bundle.state.lower(),
        "backbone": bundle.backbone,
        "language": bundle.language,
        "bytes": bundle.size,
        "key": bundle.signer,
        "created": when(bundle.created),
    }


def _row(bundle: PublishedBundle) -> tuple[str, ...]:
    size, signer = f"{bundle.size / 1e6:.1f} MB", bundle.signer or "each server"
    made, state = when(bundle.created), bundle.state.lower()
    return bundle.id, bundle.backbone, bundle.language, size, made, state, signer
