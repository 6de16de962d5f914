"""Errands of the kill campaign: all of `network`, and those without a line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from soak.campaign.network import ERRANDS, Errand, World, trained
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants.credentials import Codes
from tests.support.caller import credentials

LEARNER: Final = "learner"
"""The folder of what learns by itself; its bundle, which has an encoder, lies there already."""

_TEXTS: Final = ("the oven was very salt", "water and the garden", "salt in the bread")
_OLD, _NEW = ("warm", "cold"), ("up", "down")
_TENANT: Final = "acme"


def _apart(world: World, name: str, **more: str) -> dict[str, str]:
    """A separate device without a daemon."""
    folder = world.device.folder / name
    return {
        "HOME": str(folder),
        "SOTTO_AGENT_LISTEN": f"unix:{folder}/none.sock",
        "SOTTO_AGENT_STATE": str(folder / "state"),
        **more,
    }


def _first_text(world: World, name: str) -> Iterator[object]:
    apart = _apart(world, name)
    yield world.command("privatize", f"Anna was in the garden of {name}", **apart)["text"]
    with closing(sqlite3.connect(Path(apart["SOTTO_AGENT_STATE"]) / "agent.db")) as database:
        charges = "SELECT releases, (SELECT count(*) FROM charged) FROM ledger"
        yield database.execute(charges).fetchall() == [(1, 1)]


def _rotated(world: World, name: str) -> Iterator[object]:
    assert world.command("rotate-key")["epoch"] > 1
    yield "rotated"


def _learn(world: World, labels: tuple[str, str]) -> None:
    folder = world.device.folder / LEARNER
    table = folder / "table.tsv"
    rows = [f"{text} {number}\t{labels[number % 2]}" for number, text in enumerate(_TEXTS * 8)]
    table.write_text("\n".join(["text\tlabel", *rows, ""]))
    apart = _apart(world, LEARNER, SOTTO_BUNDLE_PATH=str(folder / "bundles"))
    world.command("learn", LEARNER, "--input", str(table), "--replace", **apart)


def _in_use(world: World) -> tuple[str, str]:
    """The label that it answers with, and the version that answered."""
    folder = world.device.folder / LEARNER
    apart = _apart(world, LEARNER, SOTTO_BUNDLE_PATH=str(folder / "bundles"))
    label = str(world.command("predict", LEARNER, _TEXTS[0], **apart)["label"])
    versions = world.command("fetch", LEARNER, "--versions", **apart)["versions"]
    (used,) = (version["version"] for version in versions if version["in_use"])
    return label, used


def _learnt(world: World, name: str) -> Iterator[object]:
    """Whatever came before, it answers as it was taught once or as it is taught now; then anew."""
    label, _ = _in_use(world)
    assert label in _OLD + _NEW, label
    _learn(world, _NEW)
    label, version = _in_use(world)
    assert label in _NEW, label
    yield label, version


def _invited(world: World, name: str) -> None:
    folder = world.device.folder / name
    folder.mkdir(mode=0o700)
    with closing(_database(world)) as database:
        (folder / "code").write_text(Codes(database).new(_TENANT, name))


def _enrolled(world: World, name: str) -> Iterator[object]:
    folder = world.device.folder / name
    code, token = (folder / "code").read_text(), folder / "own.token"
    if not token.exists():  # which is put there last of all
        world.command("enroll", code, "--token-file", str(token), **_apart(world, name))
    with closing(_database(world)) as database:
        known = credentials(_TENANT, token.read_text().strip())
        yield Tenants(database).authenticate(known)
        with database.read() as transaction:
            named = "SELECT count(*) AS n FROM credentials WHERE name = :name"
            yield transaction.rows(named, name=name)[0]["n"]


def _database(world: World) -> SqliteDatabase:
    return SqliteDatabase(world.cloud.folder / "state", create=False)


ALL: Final = {
    **ERRANDS,
    "train": Errand(partial(trained, epochs=2), 25, charged=24, jobs=1),
    "first text": Errand(_first_text, 0),
    "rotate": Errand(_rotated, 0),
    "learn": Errand(_learnt, 0, prepare=lambda world, name: _learn(world, _OLD)),
    "enroll": Errand(_enrolled, 4, prepare=_invited),
}
