"""A pull gives all of the right bundle or changes nothing, and wastes no byte that had arrived."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import Manifest, bundle_id
from sottovoce.core.bundle.signature import Signature, show_key
from sottovoce.core.errors import BundleMismatch, DataLoss, NotFound, NotReady, Unavailable
from sottovoce.core.privacy import inspection
from sottovoce.core.text import onnx_models
from sottovoce.edge.bundle import Pulled, pull
from sottovoce.edge.client import retry
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.config import Config
from sottovoce.v1 import bundles_pb2
from tests.support.agent import configured
from tests.support.onnx_bytes import loop
from tests.support.stub_cloud import StubCloud, stub_cloud
from tests.support.tampering import add_file, change_array


@contextmanager
def _pair(folder: Path, bundle: Path, **environ: str) -> Iterator[tuple[StubCloud, Config]]:
    with stub_cloud(bundle) as server:
        yield server, configured(folder, SOTTO_CLOUD_ADDRESS=server.address, **environ)


@pytest.fixture(autouse=True)
def _measured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The levels of the small bundle are made up, and its classes are small."""
    if "bundle_folder" not in request.fixturenames:
        monkeypatch.setattr(inspection, "inspect", lambda *_, **__: ())


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PAUSE", 0)


def _pull(config: Config, **options: Any) -> Pulled:
    with closing(Cloud(config.cloud)) as cloud:
        return pull(cloud, config.bundle, **options)


def _size(bundle: Path) -> int:
    return sum(stored.bytes for stored in Bundle.open(bundle).manifest.files.values())


def _other(folder: Path, bundle: Path, language: str) -> Path:
    copy = folder / f"bundle-{language}"
    shutil.copytree(bundle, copy)
    manifest = Manifest.from_json((copy / "manifest.json").read_bytes())
    (copy / "manifest.json").write_bytes(replace(manifest, language=language).to_json())
    return copy


def test_a_pull_is_complete_verified_and_current(tmp_path: Path, small_bundle_folder: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with _pair(tmp_path, small_bundle_folder) as (_, config):
        with closing(Cloud(config.cloud)) as cloud:
            pulled = pull(cloud, config.bundle, progress=lambda *at: told.append(at))
        assert not pulled.up_to_date
        assert Bundle.open(config.bundle.current.resolve()).id == pulled.id
        assert config.bundle.current.is_symlink()
        assert pulled.folder == config.bundle.path / "bundles" / pulled.id
        assert told[-1][1:] == (pulled.bytes, pulled.bytes)
        assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
        assert _pull(config).up_to_date


def test_a_manifest_that_was_altered_here_is_fetched_again(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        manifest = _pull(config).folder / "manifest.json"
        sound = manifest.read_bytes()
        manifest.write_bytes(sound.replace(b'"eta": 4.0', b'"eta": 8.0', 1))
        server.fetched.clear()
        assert not _pull(config).up_to_date
        assert (config.bundle.current / "manifest.json").read_bytes() == sound
        assert server.fetched.total() == 0  # its other files were good
        assert _pull(config).up_to_date


def test_a_broken_pull_goes_on_where_it_stopped(tmp_path: Path, small_bundle_folder: Path) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        server.bytes_left = _size(small_bundle_folder) // 2
        _pull(config)
        # Whatever had arrived was not fetched again, but for the chunk in flight at each break.
        assert server.fetched.total() <= _size(small_bundle_folder) + 8 * 512
        assert Bundle.open(config.bundle.current.resolve())


def test_a_pull_that_gave_up_is_resumed_by_the_next(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):

        def dies(name: str, done: int, total: int) -> None:
            if done > total // 3:
                raise KeyboardInterrupt

        with closing(Cloud(config.cloud)) as cloud, pytest.raises(KeyboardInterrupt):
            pull(cloud, config.bundle, progress=dies)
        assert not config.bundle.current.exists()
        (partial,) = (config.bundle.path / "bundles").iterdir()
        kept = sum(p.stat().st_size for p in partial.rglob("*") if p.is_file())
        assert kept > _size(small_bundle_folder) // 4
        server.stop()  # so that nothing is still being sent
        server.fetched.clear()
        server.start()
        _pull(config)
        assert server.fetched.total() == _size(small_bundle_folder) - kept


def test_altered_bytes_are_refused_and_removed(tmp_path: Path, small_bundle_folder: Path) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        server.altered = "rows.npy"
        with pytest.raises(DataLoss, match=r"rows\.npy") as caught:
            _pull(config)
        assert caught.value.subject == "rows.npy"
        assert not config.bundle.current.exists()
        assert not list(config.bundle.path.rglob("rows.npy"))
        server.altered = ""
        assert Bundle.open(_pull(config).folder)


def test_a_file_longer_than_promised_is_cut_off(tmp_path: Path, small_bundle_folder: Path) -> None:
    served = tmp_path / "served"
    shutil.copytree(small_bundle_folder, served)
    (served / "words.txt").write_bytes(bytes(1 << 20))
    with _pair(tmp_path, served) as (server, config):
        with pytest.raises(DataLoss, match=r"words\.txt"):
            _pull(config)
        assert server.fetched["words.txt"] < 1 << 20


def test_a_bundle_damaged_later_is_mended_by_pulling_again(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        folder = _pull(config).folder
        data = bytearray((folder / "rows.npy").read_bytes())
        data[-1] ^= 1
        (folder / "rows.npy").write_bytes(data)
        server.fetched.clear()
        assert not _pull(config).up_to_date
        assert Bundle.open(config.bundle.current.resolve())
        assert list(server.fetched) == ["rows.npy"]


def test_a_bundle_the_cloud_lacks_is_not_found(tmp_path: Path, small_bundle_folder: Path) -> None:
    with _pair(tmp_path, small_bundle_folder) as (_, config):
        good = Bundle.open(small_bundle_folder).id
        assert _pull(config, wanted=good).id == good
        with pytest.raises(NotFound, match="not serve"):
            _pull(config, wanted="0" * 16)


@pytest.mark.parametrize("asked", ["", "its id"])
@pytest.mark.parametrize("lie", ["another id", "another manifest", "another bundle"])
def test_a_manifest_that_is_not_its_own_id_is_refused(
    tmp_path: Path,
    small_bundle_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    lie: str,
) -> None:
    right = (small_bundle_folder / "manifest.json").read_bytes()
    other = (_other(tmp_path, small_bundle_folder, "aa") / "manifest.json").read_bytes()
    said, sent = {
        "another id": (bundle_id(other), right),
        "another manifest": (bundle_id(right), other),
        "another bundle": (bundle_id(other), other),  # consistent, but not what was asked for
    }[lie]
    signature = Signature.make(sent, Ed25519PrivateKey.generate())
    answer = bundles_pb2.GetManifestResponse(
        bundle_id=said, manifest=sent, public_key=signature.key, signature=signature.value
    )
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        monkeypatch.setattr(Cloud, "get_manifest", lambda *_: answer)
        if lie == "another bundle" and not asked:
            server.bundle = tmp_path / "bundle-aa"
            assert _pull(config).id == said  # the cloud's default is its own choice
            return
        with pytest.raises(DataLoss, match="not the bundle's"):
            _pull(config, wanted=bundle_id(right) if asked else "")
        assert not config.bundle.current.exists()
        assert list((config.bundle.path / "bundles").iterdir()) == []


def test_the_bundle_before_is_kept_and_older_ones_are_removed(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        folders = [_pull(config).folder]
        for language in ("aa", "bb"):
            server.bundle = _other(tmp_path, small_bundle_folder, language)
            folders.append(_pull(config).folder)
        assert config.bundle.current.resolve() == folders[2]
        assert [folder.exists() for folder in folders] == [False, True, True]


def test_the_wrong_backbone_is_refused_before_anything_is_fetched(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with _pair(tmp_path, small_bundle_folder, SOTTO_BUNDLE_BACKBONE="other") as (server, config):
        with pytest.raises(BundleMismatch, match="other"):
            _pull(config)
        assert server.fetched.total() == 0


def test_another_key_is_refused_until_the_owner_says_so(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        before = _pull(config)
        server.bundle = _other(tmp_path, small_bundle_folder, "aa")
        assert server.key is not None
        assert before.key == server.key.public_key().public_bytes_raw()
        server.key = Ed25519PrivateKey.generate()
        server.fetched.clear()
        with pytest.raises(BundleMismatch, match="not as before") as caught:
            _pull(config)
        assert server.fetched.total() == 0  # refused before anything is fetched
        assert config.bundle.current.resolve() == before.folder
        new = server.key.public_key().public_bytes_raw()
        assert show_key(new) in caught.value.fix
        with pytest.raises(BundleMismatch, match="not with the key given"):
            _pull(config, key=before.key)
        assert _pull(config, key=new).key == new
        assert _pull(config).up_to_date  # noted
        with pytest.raises(BundleMismatch, match="not with the key given"):
            _pull(config, key=before.key)


def test_the_configured_key_is_insisted_on_at_the_first_pull(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    key = Ed25519PrivateKey.generate()
    shown = show_key(key.public_key().public_bytes_raw())
    with _pair(tmp_path, small_bundle_folder, SOTTO_BUNDLE_KEY=shown) as (server, config):
        with pytest.raises(BundleMismatch, match="not the configured key"):
            _pull(config)
        server.key = key
        assert _pull(config).key == key.public_key().public_bytes_raw()


def test_a_bundle_that_nobody_signed_is_refused(tmp_path: Path, small_bundle_folder: Path) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        server.key = None
        with pytest.raises(NotReady, match="no signature"):
            _pull(config)
        assert not config.bundle.current.exists()


def test_a_signature_of_another_manifest_is_refused(
    tmp_path: Path, small_bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        genuine = Signature.make
        monkeypatch.setattr(
            Signature, "make", lambda data, key: genuine(data.replace(b"en", b"xx"), key)
        )
        with pytest.raises(DataLoss, match="does not fit its manifest"):
            _pull(config)
        assert server.fetched.total() == 0
        assert not (config.bundle.path / "known_clouds").exists()


def test_a_bundle_that_voids_the_promise_is_refused_though_it_is_signed(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        before = _pull(config)
        larger = _other(tmp_path, small_bundle_folder, "aa")
        change_array(larger, "rows.npy", lambda rows: rows * np.float32(1_000))
        server.bundle = larger
        for _ in range(2):  # the second finds all files there already
            with pytest.raises(BundleMismatch, match="unit sphere"):
                _pull(config)
        assert config.bundle.current.resolve() == before.folder


@pytest.mark.parametrize("path", ["tagger/tagger.onnx", "names/names.onnx", "denoisers/x.onnx"])
def test_a_network_that_never_ends_is_refused_before_it_is_opened(
    path: str, tmp_path: Path, small_bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        before = _pull(config)
        endless = Path(shutil.copytree(small_bundle_folder, tmp_path / "endless"))
        add_file(endless, path, loop())
        server.bundle = endless
        monkeypatch.setattr(onnx_models, "runtime", None)  # nothing may be asked of it
        with pytest.raises(BundleMismatch, match=rf"{Path(path).name}.*which no network of ours"):
            _pull(config)
        assert config.bundle.current.resolve() == before.folder


def test_another_language_is_refused(tmp_path: Path, bundle_folder: Path) -> None:
    with (
        _pair(tmp_path, bundle_folder, SOTTO_BUNDLE_LANGUAGE="de") as (_, config),
        pytest.raises(BundleMismatch, match="'en', not 'de'"),
    ):
        _pull(config)


def test_a_pull_that_failed_notes_no_key(tmp_path: Path, small_bundle_folder: Path) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        server.altered = "rows.npy"
        with pytest.raises(DataLoss, match="altered"):
            _pull(config)
        server.altered = ""
        server.key = Ed25519PrivateKey.generate()
        assert not _pull(config).up_to_date


def test_one_pull_at_a_time(tmp_path: Path, small_bundle_folder: Path) -> None:
    with _pair(tmp_path, small_bundle_folder) as (_, config):
        inner: list[type[BaseException]] = []

        def again(name: str, done: int, total: int) -> None:
            if not inner:
                with pytest.raises(NotReady, match="another") as caught:
                    _pull(config)
                inner.append(caught.type)

        with closing(Cloud(config.cloud)) as cloud:
            pull(cloud, config.bundle, progress=again)
        assert inner == [NotReady]


def test_no_cloud_leaves_everything_as_it_was(tmp_path: Path, small_bundle_folder: Path) -> None:
    with _pair(tmp_path, small_bundle_folder) as (server, config):
        before = _pull(config).folder
        server.stop()
        with pytest.raises(Unavailable):
            _pull(config)
        assert config.bundle.current.resolve() == before
