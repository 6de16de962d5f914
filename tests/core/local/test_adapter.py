"""An adapter's file says all that a device needs, and nothing else is taken for one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from sottovoce.core.errors import BundleMismatch, DataLoss
from sottovoce.core.local.adapter import LocalAdapter
from sottovoce.core.local.encoder import Additions, Layer, Shape

SHAPE = Shape("ab" * 32, 4, 9, 40, 30, (2,), (3,), (Layer("q", 4, 4), Layer("v", 4, 4)), 16)


def drawn() -> LocalAdapter:
    random = np.random.default_rng(0)
    rows = [
        random.standard_normal((n, w)).astype(np.float32) for n, w in ((2, 4), (3, 16), (5, 16))
    ]
    head = random.standard_normal((3, 4)).astype(np.float32)
    return LocalAdapter(
        ("no", "yes", "väl"), SHAPE.backbone_sha256, ("q", "v"), Additions(*rows), head, head[:, 0]
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    adapter = drawn()
    (tmp_path / "a").write_bytes(adapter.to_bytes())
    found = LocalAdapter.read(tmp_path / "a")
    assert (found.labels, found.layers) == (adapter.labels, adapter.layers)
    assert found.backbone_sha256 == adapter.backbone_sha256
    for name in ("prompt", "prefix", "lora"):
        assert np.array_equal(getattr(found.additions, name), getattr(adapter.additions, name))
    assert np.array_equal(found.weight, adapter.weight)
    assert np.array_equal(found.bias, adapter.bias)
    assert found.to_bytes() == adapter.to_bytes()  # so that a download can go on
    found.check(SHAPE)


def test_rows_of_nothing_travel_too(tmp_path: Path) -> None:
    bare = replace(drawn(), additions=Additions.none(SHAPE), layers=())
    (tmp_path / "a").write_bytes(bare.to_bytes())
    found = LocalAdapter.read(tmp_path / "a")
    found.check(SHAPE)
    assert found.additions.lora.shape == (0, SHAPE.lora)


@pytest.mark.parametrize(
    "change",
    [
        {"backbone_sha256": "cd" * 32},
        {"layers": ("q", "k")},
        {"weight": np.zeros((3, 5), np.float32)},
        {"additions": Additions(*(np.zeros((1, 3), np.float32) for _ in range(3)))},
        {"additions": replace(Additions.none(SHAPE), prompt=np.zeros((11, 4), np.float32))},
    ],
)
def test_another_encoder_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BundleMismatch):
        replace(drawn(), **change).check(SHAPE)


def spoilt(data: bytes, what: str) -> bytes:
    head = {"weight": np.zeros((2, 4), np.float32)}
    return {
        "cut": data[:-7],
        "empty": b"",
        "text": b"hello, this is not a safetensors file at all",
        "endless header": (1 << 40).to_bytes(8, "little") + b"{}",
        "no facts": save(head),
        "not json": save(head, {"sottovoce": "{"}),
        "not finite": replace(drawn(), bias=np.full(3, np.nan, np.float32)).to_bytes(),
        "too few labels": replace(drawn(), labels=("no", "yes")).to_bytes(),
        "flat rows": replace(
            drawn(), additions=Additions(*(np.zeros(4, np.float32) for _ in range(3)))
        ).to_bytes(),
    }[what]


@pytest.mark.parametrize(
    "what",
    [
        "cut",
        "empty",
        "text",
        "endless header",
        "no facts",
        "not json",
        "not finite",
        "too few labels",
        "flat rows",
    ],
)
def test_what_is_no_adapter_is_refused_by_name(tmp_path: Path, what: str) -> None:
    file = tmp_path / "0123.safetensors"
    file.write_bytes(spoilt(drawn().to_bytes(), what))
    with pytest.raises(DataLoss, match=r"0123\.safetensors"):
        LocalAdapter.read(file)


def test_another_format_is_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(save({}, {"sottovoce": '{"format": "sottovoce.local-adapter.v9"}'}))
    with pytest.raises(BundleMismatch, match="update"):
        LocalAdapter.read(file)
