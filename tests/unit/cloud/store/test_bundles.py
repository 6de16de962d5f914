"""A published bundle is complete, and matches its row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.cloud.store import bundles, check_objects, open_objects
from sottovoce.cloud.store.audit_log import recorded
from sottovoce.cloud.store.bundles import BundleState
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import MANIFEST, sha256
from sottovoce.core.bundle.signature import SIGNATURE, Signature, show_key, signing_key
from sottovoce.core.errors import (
    ConfigError,
    DataLoss,
    InvalidInput,
    NotFound,
    NotReady,
    Unavailable,
)
from tests.support.buckets import on_both_objects
from tests.support.encoder_bundle import with_some_files
from tests.support.signing import sign
from tests.support.stores import Store


@pytest.fixture
def database(tmp_path: Path, store: Store, objects_url: str) -> Iterator[Database]:
    url = objects_url or f"file://{tmp_path}/objects"
    database = store.open(tmp_path / "state", objects=open_objects(url, tmp_path / "state"))
    check_objects(database)
    yield database
    database.close()


@pytest.fixture
def folder(tmp_path: Path, small_bundle_folder: Path) -> Path:
    """A bundle with an encoder for devices."""
    return with_some_files(small_bundle_folder, tmp_path / "bundle")


def states(database: Database) -> list[str]:
    return [bundle.state.value for bundle in bundles.published(database)]


@on_both_objects
def test_it_is_there_when_all_of_it_is_and_nothing_is_sent_twice(
    database: Database, folder: Path
) -> None:
    told: list[tuple[str, int, int]] = []

    def cut(*progress: object) -> None:
        assert states(database) == [BundleState.UPLOADING]
        with pytest.raises(NotFound, match="no bundle is published as"):
            bundles.find(database, Bundle.open(folder).id)
        if len(told) == 3:
            raise KeyboardInterrupt
        told.append(progress)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        bundles.publish(database, folder, cut)
    there = sum((folder / name).stat().st_size for name, _, _ in told)
    published, sent = bundles.publish(database, folder)
    assert 0 < sent < published.size - there
    assert states(database) == [published.state] == [BundleState.PUBLISHED]
    assert bundles.publish(database, folder) == (published, 0)
    found = bundles.find(database, published.id[:4])
    assert (found.manifest, found.id) == ((folder / MANIFEST).read_bytes(), Bundle.open(folder).id)
    assert found.sha256 == sha256(folder / MANIFEST)
    kept = [f.relative_to(folder) for f in folder.rglob("*") if f.is_file() and f.name != MANIFEST]
    for name in kept:
        content = b"".join(database.objects.pieces(f"{found.name}/{name}", 0))
        assert content == (folder / name).read_bytes()
    assert [act.what for act in recorded(database, most=9)] == ["bundle published"]


@on_both_objects
def test_a_file_that_has_gone_is_sent_again(database: Database, folder: Path) -> None:
    published, _ = bundles.publish(database, folder)
    database.objects.remove(f"{published.name}/encoder")
    assert bundles.publish(database, folder)[1] == sum(
        file.stat().st_size for file in (folder / "encoder").iterdir()
    )


@on_both_objects
def test_what_is_deleted_is_gone_with_all_its_files(
    database: Database, folder: Path, small_bundle: Bundle
) -> None:
    first, _ = bundles.publish(database, folder)
    second, _ = bundles.publish(database, small_bundle.folder)
    assert bundles.delete(database, first.id) == first
    with pytest.raises(NotFound, match=first.id):
        bundles.find(database, first.id)
    assert database.objects.within("bundles") == [second.name.partition("/")[2]]
    assert bundles.find(database, second.sha256) is not None
    assert bundles.publish(database, folder)[1] == first.size


@on_both_objects
@pytest.mark.parametrize("after", [2, None])
def test_what_is_deleted_while_it_is_published_does_not_come_back(
    database: Database, folder: Path, after: int | None
) -> None:
    told: list[str] = []

    def meanwhile(name: str, done: int, total: int) -> None:
        told.append(name)
        if len(told) == after or (after is None and done == total):
            bundles.delete(database, Bundle.open(folder).id)

    with pytest.raises(NotReady, match="deleted while"):
        bundles.publish(database, folder, meanwhile)
    assert bundles.published(database) == []
    assert database.objects.within("bundles") == []


@on_both_objects
def test_who_is_killed_after_a_deletion_leaves_what_a_sweep_takes(
    database: Database, folder: Path, small_bundle: Bundle
) -> None:
    told: list[str] = []

    def killed(name: str, done: int, total: int) -> None:
        told.append(name)
        if len(told) == 2:
            bundles.delete(database, Bundle.open(folder).id)
        if len(told) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bundles.publish(database, folder, killed)
    there, _ = bundles.publish(database, small_bundle.folder)
    told[:] = [""] * 2  # so that this one is not deleted
    with pytest.raises(KeyboardInterrupt):
        bundles.publish(database, folder, killed)
    half = [bundle for bundle in bundles.published(database) if bundle != there]
    database.objects.put_file(folder / "rows.npy", "bundles/ours/rows.npy")
    bundles.sweep(database)
    kept = [bundle.name.partition("/")[2] for bundle in (*half, there)]
    assert len(kept) == 2
    assert database.objects.within("bundles") == sorted([*kept, "ours"])
    assert bundles.publish(database, small_bundle.folder)[1] == 0, "all of it is there"


def test_what_is_deleted_and_published_anew_meanwhile_is_the_others(
    database: Database, folder: Path
) -> None:
    def meanwhile(_: str, done: int, total: int) -> None:
        if done == total:
            bundles.delete(database, Bundle.open(folder).id)
            bundles.publish(database, folder)

    with pytest.raises(NotReady, match="deleted while"):
        bundles.publish(database, folder, meanwhile)
    assert states(database) == [BundleState.PUBLISHED]


def test_a_deletion_that_was_cut_off_is_ended_by_whoever_comes(
    database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Unavailable("away")

    first, _ = bundles.publish(database, folder)
    for again in (
        lambda: bundles.delete(database, first.id),
        lambda: bundles.publish(database, folder),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(database.objects, "remove", away)
            with pytest.raises(Unavailable):
                bundles.delete(database, first.id)
        assert states(database) == [BundleState.DELETING]
        with pytest.raises(NotFound):
            bundles.find(database, first.id)
        again()
        assert database.objects.within("bundles") == [
            bundle.name.partition("/")[2] for bundle in bundles.published(database)
        ]
        bundles.publish(database, folder)


def test_the_signature_may_be_made_later(database: Database, folder: Path) -> None:
    published, _ = bundles.publish(database, folder)
    assert published.signer == ""
    key = Ed25519PrivateKey.generate()
    signature = Signature.make((folder / MANIFEST).read_bytes(), key)
    (folder / SIGNATURE).write_bytes(signature.to_bytes())
    published, sent = bundles.publish(database, folder)
    assert (published.signer, sent) == (show_key(signature.key), 0)
    (folder / SIGNATURE).unlink()
    bundles.publish(database, folder)
    assert bundles.find(database, published.id).signature == signature.to_bytes(), "it stays"


@pytest.mark.parametrize("damaged", ["rows.npy", "encoder/encoder.onnx", SIGNATURE])
def test_what_is_damaged_is_not_published(database: Database, folder: Path, damaged: str) -> None:
    (folder / damaged).write_bytes(bytes(range(96)))
    with pytest.raises(DataLoss) as caught:
        bundles.publish(database, folder)
    assert caught.value.subject == damaged
    assert "build-bundle" in caught.value.fix
    assert bundles.published(database) == []


def test_a_folder_without_a_bundle_is_told(database: Database, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no bundle at") as caught:
        bundles.publish(database, tmp_path)
    assert "build-bundle" in caught.value.fix


def test_an_id_that_several_begin_with_is_not_guessed(database: Database, folder: Path) -> None:
    first, _ = bundles.publish(database, folder)
    twin = f"{first.sha256[:6]}{'0' * 58}"
    with database.write() as transaction:
        transaction.change(
            "INSERT INTO bundles (sha256, name, state, manifest, signature, backbone, language, "
            "size, created) SELECT :twin, 'n', state, manifest, signature, backbone, language, "
            "size, created FROM bundles",
            twin=twin,
        )
    for use in (bundles.find, bundles.delete):
        with pytest.raises(InvalidInput, match="several") as caught:
            use(database, first.id[:6])
        assert first.id in caught.value.fix
        with pytest.raises(NotFound):
            use(database, "")
    assert bundles.find(database, first.id).sha256 == first.sha256


def test_objects_of_one_machine_are_not_for_many(tmp_path: Path, folder: Path) -> None:
    database = SqliteDatabase(tmp_path / "state")
    for use in (lambda: bundles.publish(database, folder), lambda: bundles.delete(database, "ab")):
        with pytest.raises(ConfigError, match="--state") as caught:
            use()
        assert "--objects" in caught.value.fix
    database.close()


def test_a_signature_made_with_the_bundle_goes_before_the_servers_own(
    tmp_path: Path, small_bundle: Bundle
) -> None:
    file = tmp_path / "signing.key"
    manifest = (small_bundle.folder / "manifest.json").read_bytes()
    own = bundles.signature_of(small_bundle, file)
    own.check(manifest)
    assert own.key == signing_key(file).public_key().public_bytes_raw()

    offline = tmp_path / "bundle"
    offline.mkdir()
    (offline / "manifest.json").write_bytes(manifest)
    public = sign(offline, Ed25519PrivateKey.generate())
    there = Bundle(small_bundle.folder, small_bundle.manifest, small_bundle.id)
    there.folder = offline
    assert bundles.signature_of(there, file).key == public
    (offline / "manifest.json").write_bytes(manifest + b" ")
    with pytest.raises(DataLoss, match="does not fit"):
        bundles.signature_of(there, file)
