"""An adapter's file says all that a device needs, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from sottovoce.core.bundle.adapter import FORMAT, LocalAdapter
from sottovoce.core.bundle.encoder import Additions, Encoder, Layer, Shape
from sottovoce.core.errors import BundleMismatch, DataLoss
from sottovoce.core.rpc.limits import LARGEST_ADAPTER, MOST_LABELS

FACTS = {"format": FORMAT, "labels": "[]", "layers": "[]", "backbone_sha256": "ab" * 32}
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


def test_an_encoder_without_prefixes_takes_adapters_without_them() -> None:
    bare = replace(SHAPE, prefix=0)
    none = replace(drawn().additions, prefix=np.zeros((0, SHAPE.prefix), np.float32))
    replace(drawn(), additions=none).check(bare)
    with pytest.raises(BundleMismatch, match="does not fit"):
        drawn().check(bare)


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
        "too large": data.ljust(LARGEST_ADAPTER + 1, b"\0"),
        "deep": save(head, {"sottovoce": "[" * 200_000}),
        "deep labels": save(head, {"sottovoce": json.dumps({**FACTS, "labels": "[" * 200_000})}),
        "labels by name": save(head, {"sottovoce": json.dumps({**FACTS, "labels": '{"a": 1}'})}),
        "a label twice": replace(drawn(), labels=("no", "yes", "no")).to_bytes(),
        "wide bias": replace(drawn(), bias=np.zeros((3, 3), np.float32)).to_bytes(),
        "many labels": replace(
            drawn(),
            labels=tuple(map(str, range(MOST_LABELS + 1))),
            weight=np.zeros((MOST_LABELS + 1, 4), np.float32),
            bias=np.zeros(MOST_LABELS + 1, np.float32),
        ).to_bytes(),
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
        "too large",
        "deep",
        "deep labels",
        "labels by name",
        "a label twice",
        "wide bias",
        "many labels",
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


class Huge:
    """An encoder with the largest finite states."""

    shape = SHAPE

    def pooled(self, text: str, additions: Additions) -> NDArray[np.float32]:
        return np.full(SHAPE.width, 3e38, np.float32)


def test_numbers_that_overflow_are_no_answer() -> None:
    huge = replace(drawn(), weight=np.full((3, 4), 3e38, np.float32))
    with pytest.raises(DataLoss, match="no score"):
        huge.scores(cast(Encoder, Huge()), "x")


def test_another_format_is_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(save({}, {"sottovoce": '{"format": "sottovoce.local-adapter.v9"}'}))
    with pytest.raises(BundleMismatch, match="update"):
        LocalAdapter.read(file)
