"""A method is one module and one line: this module is BitFit, the fixture is the line.

BitFit (Ben Zaken et al.) trains only the biases of the linear layers in the backbone's blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
import torch
from torch import Tensor

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import adapters, backbone, methods
from sottovoce.cloud.models.methods import AdaptedEncoder, Lora, Method, Prompt
from sottovoce.cloud.models.methods.lora import targets
from sottovoce.cloud.models.rows import Row, Update, Updates, misfit
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.cloud.training.trainer import train
from sottovoce.core.errors import SottovoceError
from tests.support.examples import examples
from tests.support.serving import make, predicting, served


@dataclass(frozen=True, slots=True)
class BitFit(Method):
    """Nothing to choose."""

    learning_rate: ClassVar[float] = 1e-2

    @classmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        return cls()

    def build(self, encoder: Any) -> AdaptedEncoder:
        for name in targets(encoder, feed_forward=True):
            encoder.get_submodule(name).bias.requires_grad_(True)
        return AdaptedEncoder(self, encoder)

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        biases = {name: encoder.get_submodule(name).bias for name in targets(encoder, True)}
        if {n: t.shape for n, t in tensors.items()} != {
            f"{n}.bias": b.shape for n, b in biases.items()
        }:
            raise misfit()
        moved = [tensors[f"{name}.bias"] - bias.cpu() for name, bias in biases.items()]
        return Row(updates=Biases(torch.cat(moved), tuple((n, len(b)) for n, b in biases.items())))


@dataclass(frozen=True, slots=True, eq=False)
class Biases(Updates):
    """How far each bias was moved, one layer's after the other's: Float (all outputs,)."""

    layers: tuple[tuple[str, int], ...]

    @classmethod
    def stacked(cls, rows: Sequence[Self | None]) -> Mapping[str, Update]:
        some = next(row for row in rows if row is not None)
        none = torch.zeros_like(some.packed)
        packed = torch.stack([none if row is None else row.packed for row in rows])
        widths = [width for _, width in some.layers]
        return {
            name: partial(_moved, by)
            for (name, _), by in zip(some.layers, packed.split(widths, 1), strict=True)
        }


def _moved(by: Tensor, inputs: Tensor, output: Tensor) -> Tensor:
    return output + by[:, None]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line."""
    monkeypatch.setitem(methods.METHODS, "bitfit", BitFit)


def test_it_trains_saves_loads_and_answers_beside_other_methods(bert: str, tmp_path: Path) -> None:
    options = TrainingOptions("bitfit", epochs=8, batch_size=8)
    (tmp_path / "toy").mkdir()
    result = train(examples(90), options, backbone.load(bert), tmp_path / "toy" / "adapter")
    # Chance is 1/3 of 13 held out; 11 or more by chance in one of 10,000 runs.
    assert result.held_out_accuracy > 0.8

    loaded = adapters.load(result.folder)
    assert loaded.method == BitFit()
    assert loaded.tensors.keys() == {
        f"{n}.bias" for n in targets(backbone.load(bert).model, feed_forward=True)
    }
    made = [
        make(Path(bert), tmp_path / name / "adapter", method, seed=seed)
        for seed, (name, method) in enumerate(
            {
                "lora": Lora(rank=4),
                "bitfit": BitFit(),
                "prompt": Prompt(5),
                "other": BitFit(),
            }.items()
        )
    ]
    asked = [(made[i % 4], row.text) for i, row in enumerate(examples(12, seed=3))]
    with predicting(bert) as predictor:
        found = served(predictor, [(one.folder, text) for one, text in asked])
        trained = predictor.submit(AdapterFiles.of(result.folder), asked[0][1]).result()
    for (one, text), row in zip(asked, found, strict=True):
        assert torch.allclose(row, one.logits(text), atol=1e-4), one.folder.parent.name
    assert len({tuple(one.logits(asked[0][1]).tolist()) for one in made}) == 4
    assert {label for label, _ in trained} == set(result.labels)


def test_biases_of_another_backbone_are_refused(families: dict[str, Path], tmp_path: Path) -> None:
    one = make(families["bert"], tmp_path / "job" / "adapter", BitFit())
    tensors = adapters.load(one.folder).tensors
    tensors.popitem()
    with pytest.raises(SottovoceError, match="does not fit"):
        BitFit().row(backbone.load(str(families["bert"])).model, tensors)
