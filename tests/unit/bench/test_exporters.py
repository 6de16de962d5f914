"""What exporters are compared by: over a tiny backbone, whose graph is ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.speed import exporters
from sottovoce.cloud.models import backbone as backbones
from sottovoce.models import encoder as device_encoder
from tests.support.backbones import tiny_bert

TEXTS = ["a text about the harbour and the weather of the week in that town", "another one"]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> backbones.LoadedBackbone:
    return backbones.load(str(tiny_bert(tmp_path_factory.mktemp("tiny") / "bert")))


def test_who_makes_the_same_is_alike_and_who_does_not_is_not(
    backbone: backbones.LoadedBackbone, tmp_path: Path
) -> None:
    device_encoder.write(backbone, tmp_path / "ours")
    ours = exporters.ours(tmp_path / "ours")

    def turned(ids: Sequence[int]) -> NDArray[np.float32]:
        return ours(ids)[::-1]

    found = exporters.measure({"ours": ours, "turned": turned}, backbone, TEXTS)
    assert found["ours"]["cosine"]["least"] > 0.99
    assert found["turned"]["cosine"]["mean"] < 0.9
    assert found["ours"]["milliseconds"] > 0
