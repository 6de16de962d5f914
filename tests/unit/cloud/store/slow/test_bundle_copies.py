"""A machine's copy of a bundle is whole or not there, and is fetched once."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import obstore
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.cloud.store import bundles, check_objects, open_database
from sottovoce.cloud.store.bundles import folders, is_id
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.store.objects import FileObjects
from sottovoce.cloud.store.s3 import S3Objects
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import MANIFEST
from sottovoce.core.bundle.signature import SIGNATURE, Signature
from sottovoce.core.errors import ConfigError, DataLoss, NotFound, QuotaExceeded, Unavailable
from tests.support.buckets import on_both_objects
from tests.support.encoder_bundle import with_some_files
from tests.support.processes import environment

FETCH = """
import sys
from pathlib import Path
from sottovoce.cloud.store.bundles import folders
from sottovoce.cloud.store import open_database
from sottovoce.cloud.store import check_objects
state, objects, bundle, stop = sys.argv[1:]
database = open_database(Path(state), "", objects)
check_objects(database)
real = type(database.objects).pieces
files = []

def pieces(self, name, offset):
    files.append(name)
    for piece in real(self, name, offset):
        half = len(files) == int(stop)
        yield piece[:len(piece) // 2] if half else piece
        if half:
            print("half", flush=True)
            sys.stdin.read()

type(database.objects).pieces = pieces
print(*folders(database, [Path(bundle)]), flush=True)
sys.stdin.read()
"""
"""A process that fetches a bundle, and stands still in the middle of one of its files."""


class Machine(NamedTuple):
    """One of several, which share the database here for the test's sake alone."""

    database: Database
    folder: Path
    id: str
    url: str

    def copy(self) -> Path:
        """Its copy of the bundle, fetched if need be."""
        (found,) = folders(self.database, [Path(self.id)])
        return found

    def fetching(self, stop: int = 0) -> subprocess.Popen[bytes]:
        arguments = (str(self.database.state), self.url, self.id, str(stop))
        return subprocess.Popen(
            [sys.executable, "-c", FETCH, *arguments],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )


@pytest.fixture
def machine(tmp_path: Path, objects_url: str, small_bundle_folder: Path) -> Iterator[Machine]:
    """With a published bundle."""
    url = objects_url or f"file://{tmp_path}/objects"
    folder = with_some_files(small_bundle_folder, tmp_path / "bundle")
    signature = Signature.make((folder / MANIFEST).read_bytes(), Ed25519PrivateKey.generate())
    (folder / SIGNATURE).write_bytes(signature.to_bytes())
    database = open_database(tmp_path / "state", "", url)
    check_objects(database)
    published, _ = bundles.publish(database, folder)
    yield Machine(database, folder, published.id, url)
    database.close()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Record the files fetched from now on, and their offsets."""
    asked: list[tuple[str, int]] = []
    for kind in (FileObjects, S3Objects):

        def noted(
            self: FileObjects, name: str, offset: int, real: object = kind.pieces
        ) -> Iterator[bytes]:
            asked.append((name.split("/", 2)[2], offset))
            return real(self, name, offset)  # type: ignore[operator, no-any-return]

        monkeypatch.setattr(kind, "pieces", noted)
    return asked


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def damage(machine: Machine, name: str, data: bytes | None) -> None:
    """Puts something else in the place of an object, or nothing."""
    objects, key = machine.database.objects, bundles.find(machine.database, machine.id).name
    if isinstance(objects, S3Objects):
        if data is None:
            obstore.delete(objects._store, f"{key}/{name}")
        else:
            obstore.put(objects._store, f"{key}/{name}", data)
        return
    file = objects.place(f"{key}/{name}")
    assert file is not None
    file.unlink() if data is None else file.write_bytes(data)


@on_both_objects
def test_a_copy_is_the_folder_and_is_fetched_once(
    machine: Machine, fetched: list[tuple[str, int]], tmp_path: Path
) -> None:
    copy = machine.copy()
    assert copy.is_relative_to(machine.database.state)
    assert contents(copy) == contents(machine.folder)
    names = set(contents(machine.folder)) - {MANIFEST, SIGNATURE}
    assert sorted(fetched) == sorted((name, 0) for name in names)
    assert folders(machine.database, [machine.folder, Path(machine.id[:7])]) == (
        machine.folder,
        copy,
    )
    assert len(fetched) == len(names)


@on_both_objects
def test_who_is_killed_in_the_middle_goes_on_there(
    machine: Machine, fetched: list[tuple[str, int]]
) -> None:
    with machine.fetching(stop=4) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.kill()
    half = [*(machine.database.state / "fetched-bundles").glob("[!.]*/")]
    assert half == [], "nobody takes it for a bundle"
    manifest = Bundle.open(machine.folder).manifest
    left = [*manifest.files, *manifest.optional][3:]
    assert contents(machine.copy()) == contents(machine.folder)
    assert [name for name, _ in fetched] == left


def test_half_a_file_is_gone_on_with(machine: Machine, fetched: list[tuple[str, int]]) -> None:
    partial = machine.database.state / "fetched-bundles" / f".{machine.id}.partial"
    partial.mkdir(parents=True)
    whole = (machine.folder / "rows.npy").read_bytes()
    (partial / "rows.npy").write_bytes(whole[:1000])
    (partial / "words.txt").write_bytes(b"what a power cut left")
    (partial / "tokens.npy").write_bytes((machine.folder / "tokens.npy").read_bytes() + b"more")
    assert contents(machine.copy()) == contents(machine.folder)
    offsets = [each for each in fetched if each[0] in ("rows.npy", "words.txt", "tokens.npy")]
    assert sorted(offsets) == [
        ("rows.npy", 1000),
        ("tokens.npy", 0),
        ("words.txt", 0),
        ("words.txt", 21),
    ]


def test_of_several_at_once_one_fetches(machine: Machine, fetched: list[tuple[str, int]]) -> None:
    with ThreadPoolExecutor(4) as threads:
        copies = set(threads.map(lambda _: machine.copy(), range(4)))
    assert contents(copies.pop()) == contents(machine.folder)
    assert not copies
    assert len(fetched) == len(set(fetched))


def test_a_second_process_waits_for_the_first(machine: Machine) -> None:
    with machine.fetching(stop=2) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"half\n"
        with machine.fetching() as second, ThreadPoolExecutor(1) as threads:
            assert second.stdout is not None
            said = threads.submit(second.stdout.readline)
            first.kill()  # as it holds the lock, however it ends
            assert contents(Path(said.result().decode().strip())) == contents(machine.folder)
            second.kill()


@on_both_objects
@pytest.mark.parametrize("name", ["rows.npy", "cards/words.md", "encoder/encoder.onnx"])
@pytest.mark.parametrize("instead", ["others", "half", "more", "none"])
def test_an_object_that_is_not_what_was_published_is_refused_by_name(
    machine: Machine, name: str, instead: str
) -> None:
    whole = (machine.folder / name).read_bytes()
    others = {"others": bytes(len(whole)), "half": whole[: len(whole) // 2], "more": whole + b"x"}
    damage(machine, name, others.get(instead))
    for _ in range(2):
        with pytest.raises(DataLoss, match=name) as caught:
            machine.copy()
        assert f"bundles delete {machine.id}" in caught.value.fix
        assert not (machine.database.state / "fetched-bundles" / machine.id).exists()
    bundles.delete(machine.database, machine.id)
    bundles.publish(machine.database, machine.folder)
    assert contents(machine.copy()) == contents(machine.folder)


@on_both_objects
def test_who_can_write_the_objects_alone_swaps_no_bundle(
    machine: Machine, tmp_path: Path, small_bundle_folder: Path
) -> None:
    other = with_some_files(small_bundle_folder, tmp_path / "other", language="de")
    for name, data in contents(other).items():
        damage(machine, name, data)
    damage(machine, MANIFEST, (other / MANIFEST).read_bytes())
    with pytest.raises(DataLoss, match=r"encoder\.json"):  # the one file that differs
        machine.copy()


def test_objects_without_end_fill_no_disk(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object) -> Iterator[bytes]:
        while True:
            yield bytes(1 << 20)

    monkeypatch.setattr(FileObjects, "pieces", endless)
    with pytest.raises(DataLoss, match="damaged"):
        machine.copy()


def test_a_full_disk_is_told_and_loses_nothing(
    machine: Machine, fetched: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, files = FileObjects.pieces, Bundle.open(machine.folder).manifest.files

    def full(self: FileObjects, name: str, offset: int) -> Iterator[bytes]:
        if name.endswith([*files][3]):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, name, offset)

    with monkeypatch.context() as patched:
        patched.setattr(FileObjects, "pieces", full)
        with pytest.raises(QuotaExceeded, match="disk is full") as caught:
            machine.copy()
        assert "free some space" in caught.value.fix
    came = len(fetched)
    assert came == 3
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 9))
        with pytest.raises(QuotaExceeded, match="MB more"):
            machine.copy()
    assert contents(machine.copy()) == contents(machine.folder)
    assert len(fetched) == len(set(fetched))


def test_a_store_that_goes_away_meanwhile_is_gone_on_with(
    machine: Machine, fetched: list[tuple[str, int]]
) -> None:
    objects = machine.database.objects
    assert isinstance(objects, FileObjects)
    identity = objects.root / "objects.id"
    identity.rename(identity.with_name("away"))
    with pytest.raises(Unavailable, match=r"objects\.id"):
        machine.copy()
    identity.with_name("away").rename(identity)
    assert contents(machine.copy()) == contents(machine.folder)


@pytest.mark.parametrize(
    "name", ["rows.npy", "encoder/encoder.onnx", "encoder/encoder.json", MANIFEST]
)
@pytest.mark.parametrize("damage", ["altered", "missing"])
def test_a_damaged_copy_is_mended_with_what_is_good_of_it(
    machine: Machine, fetched: list[tuple[str, int]], name: str, damage: str
) -> None:
    copy = machine.copy()
    fetched.clear()
    if damage == "altered":
        (copy / name).write_bytes(b"damaged")
    else:
        (copy / name).unlink()
    assert machine.copy() == copy
    assert contents(copy) == contents(machine.folder)
    assert {file for file, _ in fetched} == {name} - {MANIFEST}, "that is the row's"


def test_a_signature_that_is_made_later_comes_too(
    machine: Machine, fetched: list[tuple[str, int]]
) -> None:
    copy = machine.copy()
    again = Signature.make((machine.folder / MANIFEST).read_bytes(), Ed25519PrivateKey.generate())
    (machine.folder / SIGNATURE).write_bytes(again.to_bytes())
    bundles.publish(machine.database, machine.folder)
    assert machine.copy() == copy
    assert (copy / SIGNATURE).read_bytes() == again.to_bytes()
    with machine.database.write() as transaction:
        transaction.change("UPDATE bundles SET signature = :none", none=b"")
    assert not (machine.copy() / SIGNATURE).exists()


def test_a_copy_goes_when_its_bundle_is_deleted_and_nobody_uses_it(machine: Machine) -> None:
    with machine.fetching() as process:
        assert process.stdout is not None
        copy = Path(process.stdout.readline().decode().strip())
        process.kill()
    bundles.folders(machine.database, [machine.folder])
    assert contents(copy) == contents(machine.folder), "it is published"
    with machine.fetching() as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        bundles.delete(machine.database, machine.id)
        bundles.folders(machine.database, [machine.folder])
        assert contents(copy) == contents(machine.folder), "somebody uses it"
        process.kill()
    (copy.parent / f".{machine.id}.partial").mkdir()
    bundles.folders(machine.database, [machine.folder])
    assert [*copy.parent.glob("*/")] == []
    with pytest.raises(NotFound, match=machine.id):
        machine.copy()
    bundles.publish(machine.database, machine.folder)
    assert contents(machine.copy()) == contents(machine.folder)


def test_what_is_a_folder_is_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text, said in (
        ("3d19", True),
        ("3d19cedd5dc6400b", True),
        ("3d1", False),
        ("bundle", False),
        ("build/3d19", False),
        ("/3d19", False),
        ("3" * 65, False),
    ):
        assert is_id(Path(text)) is said, text
    Path("3d19").mkdir()
    assert not is_id(Path("3d19"))


def test_without_objects_the_fix_is_named(tmp_path: Path) -> None:
    database = open_database(tmp_path, "", "")
    with pytest.raises(ConfigError, match="--state") as caught:
        folders(database, [Path("3d19cedd")])
    assert "--objects" in caught.value.fix
    database.close()
