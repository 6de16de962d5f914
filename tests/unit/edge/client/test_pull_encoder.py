"""The encoder is fetched on request, whole or not at all, and survives updates."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.core.bundle.folder import ENCODER, Bundle
from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady, Unavailable
from sottovoce.core.privacy import inspection
from sottovoce.core.text import onnx_models
from sottovoce.edge.bundle import Pulled, pull
from sottovoce.edge.client import retry
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.config import Config
from tests.support.agent import configured
from tests.support.encoder_bundle import offered, with_some_files
from tests.support.onnx_bytes import loop
from tests.support.stub_cloud import StubCloud, stub_cloud


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The levels of the small bundle are made up, and its classes are small."""
    monkeypatch.setattr(inspection, "inspect", lambda *_, **__: ())
    monkeypatch.setattr(retry, "PAUSE", 0)


def fetch(server: StubCloud, config: Config, *, encoder: bool) -> Pulled:
    with closing(Cloud(config.cloud)) as cloud:
        return pull(cloud, config.bundle, encoder=encoder)


def same(one: Path, other: Path) -> bool:
    names = ("encoder.onnx", "encoder.json")
    return all(
        (one / ENCODER / name).read_bytes() == (other / ENCODER / name).read_bytes()
        for name in names
    )


def test_it_comes_only_when_it_is_asked_for(tmp_path: Path, small_bundle_folder: Path) -> None:
    served = with_some_files(small_bundle_folder, tmp_path / "served")
    with stub_cloud(served) as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address)
        first = fetch(server, config, encoder=False)
        assert not first.encoder
        assert not any(path.startswith(ENCODER) for path in server.fetched)

        second = fetch(server, config, encoder=True)
        assert (second.encoder, second.up_to_date, second.id) == (True, False, first.id)
        assert same(second.folder, served)
        assert second.bytes > first.bytes

        server.fetched.clear()
        third = fetch(server, config, encoder=True)
        assert third.up_to_date
        assert third.encoder
        assert server.fetched.total() == 0


def test_an_update_brings_it_to_who_has_it(tmp_path: Path, small_bundle_folder: Path) -> None:
    with stub_cloud(with_some_files(small_bundle_folder, tmp_path / "served")) as server:
        config = configured(
            tmp_path, SOTTO_CLOUD_ADDRESS=server.address, SOTTO_BUNDLE_LANGUAGE="de"
        )
        fetch(server, config, encoder=True)
        server.bundle = with_some_files(small_bundle_folder, tmp_path / "newer", language="de")
        newer = fetch(server, config, encoder=False)
        assert not newer.up_to_date
        assert same(newer.folder, server.bundle)


def test_a_broken_download_goes_on_where_it_stopped(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with stub_cloud(with_some_files(small_bundle_folder, tmp_path / "served")) as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address)
        fetch(server, config, encoder=False)
        server.fetched.clear()
        server.bytes_left = 2_000
        pulled = fetch(server, config, encoder=True)
        assert same(pulled.folder, server.bundle)
        assert server.fetched["encoder/encoder.onnx"] <= 256 * 20 + 512


def test_an_altered_one_is_refused_by_name_and_the_bundle_goes_on(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with stub_cloud(with_some_files(small_bundle_folder, tmp_path / "served")) as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address)
        first = fetch(server, config, encoder=False)
        server.altered = "encoder/encoder.onnx"
        with pytest.raises(DataLoss, match=r"encoder\.onnx"):
            fetch(server, config, encoder=True)
        assert not (first.folder / ENCODER).exists()
        assert Bundle.open(config.bundle.current.resolve()).id == first.id


def test_a_network_that_never_ends_is_refused_before_it_is_opened(
    tmp_path: Path, small_bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = with_some_files(small_bundle_folder, tmp_path / "served")
    (served / ENCODER / "encoder.onnx").write_bytes(loop())
    with stub_cloud(offered(served)) as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address)
        monkeypatch.setattr(onnx_models, "runtime", None)  # nothing may be asked of it
        for _ in range(2):
            with pytest.raises(BundleMismatch, match=r"encoder\.onnx.*which no network of ours"):
                fetch(server, config, encoder=True)
        plain = fetch(server, config, encoder=False)
        assert not plain.encoder
        assert not (plain.folder / ENCODER).exists()


def test_one_that_was_damaged_here_is_fetched_again(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with stub_cloud(with_some_files(small_bundle_folder, tmp_path / "served")) as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address)
        pulled = fetch(server, config, encoder=True)
        (pulled.folder / ENCODER / "encoder.json").write_text("xx\n")
        assert same(fetch(server, config, encoder=False).folder, server.bundle)


def test_a_cloud_that_goes_leaves_an_update_undone(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    with stub_cloud(with_some_files(small_bundle_folder, tmp_path / "served")) as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address)
        before = fetch(server, config, encoder=True)
        server.bundle = with_some_files(small_bundle_folder, tmp_path / "newer", language="de")
        (server.bundle / ENCODER / "encoder.onnx").write_bytes(b"")  # ends early, again and again
        with pytest.raises(Unavailable):
            fetch(server, config, encoder=False)
        assert config.bundle.current.resolve() == before.folder.resolve()
        assert (before.folder / ENCODER).is_dir()


@pytest.mark.parametrize("encoder", [True, False])
def test_what_an_older_pull_left_is_not_put_in_place_unchecked(
    tmp_path: Path, small_bundle_folder: Path, *, encoder: bool
) -> None:
    with stub_cloud(with_some_files(small_bundle_folder, tmp_path / "served")) as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address)
        first = fetch(server, config, encoder=encoder)
        left = first.folder.parent / f".optional-{first.id}"
        (left / ENCODER).mkdir(parents=True)
        (left / ENCODER / "encoder.onnx").write_bytes(b"of nobody")
        second = fetch(server, config, encoder=False)
        assert second.encoder == encoder
        assert (second.folder / ENCODER).exists() == encoder
        assert not encoder or same(second.folder, server.bundle)
        assert not left.exists()


@pytest.mark.parametrize("steps", range(6))
def test_a_pull_killed_while_one_takes_the_others_place_is_mended_by_the_next(
    tmp_path: Path, small_bundle_folder: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    with stub_cloud(with_some_files(small_bundle_folder, tmp_path / "served")) as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address)
        folder = fetch(server, config, encoder=True).folder
        (folder / ENCODER / "encoder.json").write_text("xx\n")
        left = steps

        def mortal(step: Callable[..., object]) -> Callable[..., object]:
            def run(path: Path, *arguments: object, **options: object) -> object:
                nonlocal left
                if left == 0:
                    raise KeyboardInterrupt
                left -= 1
                return step(path, *arguments, **options)

            return run

        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", mortal(Path.rename))
            patched.setattr(shutil, "rmtree", mortal(shutil.rmtree))
            if steps < _STEPS:
                with pytest.raises(KeyboardInterrupt):
                    fetch(server, config, encoder=False)
            else:
                fetch(server, config, encoder=False)
        mended = fetch(server, config, encoder=False)
        assert mended.encoder
        assert same(mended.folder, server.bundle)
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]


_STEPS = 5
"""Of `_put`: what an older one left is removed, the old one renamed, the new one, and what either
left removed."""


def test_a_cloud_without_one_says_so(tmp_path: Path, small_bundle_folder: Path) -> None:
    with stub_cloud(small_bundle_folder) as server:
        config = configured(tmp_path, SOTTO_CLOUD_ADDRESS=server.address)
        with pytest.raises(NotReady, match="build-bundle --encoder"):
            fetch(server, config, encoder=True)
