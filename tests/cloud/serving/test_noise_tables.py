"""Readers of one release are shared, and making a table holds up nobody who needs another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from sottovoce.cloud.job import Release
from sottovoce.cloud.models import backbone, noise_aware
from sottovoce.cloud.models.adapters import Adapter
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.serving.noise_tables import NoiseTables
from sottovoce.core.bundle.folder import Bundle
from tests.support.tiny_bundle import tiny_bundle

SECONDS = 20


@pytest.fixture(scope="module")
def bundle(bert: str, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("noise") / "bundle"
    return Bundle.open(tiny_bundle(folder, Path(bert), counts=True))


@pytest.fixture
def readers(bundle: Bundle, bert: str) -> NoiseTables:
    return NoiseTables(backbone.load(bert), {bundle.id: bundle}, None, torch.device("cpu"))


def trained_on(bundle: Bundle, eta: float) -> Adapter:
    release = asdict(Release("t2t.v1", eta, "level", bundle.id, "content"))
    origin: dict[str, Any] = {"training": {"noise_aware": True}, "release": release}
    return Adapter(("a", "b"), Lora(), {}, None, None, None, "", origin)


def test_a_table_in_the_making_holds_up_only_who_needs_it(
    readers: NoiseTables, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real, made = noise_aware.table, []

    def slow(bundle: Bundle, release: Release, *rest: Any) -> Any:
        made.append(release.eta)
        if release.eta == 3.0:
            begun.set()
            assert go_on.wait(SECONDS)
        return real(bundle, release, *rest)

    monkeypatch.setattr(noise_aware, "table", slow)
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(readers.of, trained_on(bundle, 3.0))
        assert begun.wait(SECONDS)
        again = threads.submit(readers.of, trained_on(bundle, 3.0))
        other = threads.submit(readers.of, trained_on(bundle, 4.0))
        assert other.result(SECONDS) is not None
        assert not first.done()
        go_on.set()
        assert first.result(SECONDS) is again.result(SECONDS) is not other.result()
    assert sorted(made) == [3.0, 4.0], "made once each"


def test_a_table_that_fails_is_tried_again(
    readers: NoiseTables, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(noise_aware, "class_counts", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            readers.of(trained_on(bundle, 5.0))
    assert readers.of(trained_on(bundle, 5.0)) is not None
