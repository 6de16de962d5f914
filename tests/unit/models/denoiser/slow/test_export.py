"""Devices run the trained network, on real passages at any length."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from sottovoce.core.text.onnx_models import runtime, session
from sottovoce.models import denoiser_training
from sottovoce.models.denoiser_training import Model, Size

SIZE = Size(width=48, table=32, state=32, layers=2, heads=2, hidden=48, mixing=40)


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    model = Model(SIZE, torch.randn(200, SIZE.table))
    for parameter in model.network.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    return model.eval()


def ask(graph: bytes, rows: np.ndarray, answer: np.ndarray, helped: float) -> np.ndarray:
    # Of the float graph, which no device gets, not every operator is admitted.
    opened = runtime().InferenceSession(graph, providers=["CPUExecutionProvider"])
    inputs = {
        "rows": rows,
        "answer": answer,
        "eta": np.array([25.0], np.float32),
        "helped": np.array([helped], np.float32),
    }
    found: np.ndarray = opened.run(["embedding"], inputs)[0]
    return found


@torch.no_grad()
def test_devices_admit_what_is_written(model: Model) -> None:
    assert session(
        denoiser_training.to_onnx(
            model.network, denoiser_training.rounded(model.table.weight).scale
        )
    )


@torch.no_grad()
@pytest.mark.parametrize("n", [1, 2, 9, 200])
@pytest.mark.parametrize("helped", [0.0, 1.0])
def test_onnx_and_torch_agree(model: Model, n: int, helped: float) -> None:
    table = denoiser_training.rounded(model.table.weight)
    ids = np.arange(n) * 7 % 200
    answer = np.random.default_rng(0).standard_normal(SIZE.width).astype(np.float32)
    answer /= np.linalg.norm(answer)
    wanted = model(
        torch.from_numpy(ids)[None],
        torch.ones(1, n),
        torch.from_numpy(answer)[None],
        torch.full((1,), 25.0),
        torch.full((1,), helped),
    )[0].numpy()

    exact = denoiser_training.to_onnx(model.network, table.scale, int8=False)
    assert ask(exact, table.rows[ids], answer, helped) @ wanted > 0.9995  # the table is rounded
    small = ask(
        denoiser_training.to_onnx(model.network, table.scale), table.rows[ids], answer, helped
    )
    assert small @ wanted > 0.999
    assert small.shape == (SIZE.width,)


def test_the_table_is_rounded_by_at_most_half_a_step(model: Model) -> None:
    table = denoiser_training.rounded(model.table.weight)
    values = model.table.weight.detach().numpy()
    assert table.rows.dtype == np.int8
    assert np.abs(table.rows * table.scale - values).max() <= table.scale.max() * 0.5001


def test_weights_are_bytes(model: Model) -> None:
    table = denoiser_training.rounded(model.table.weight)
    small = denoiser_training.to_onnx(model.network, table.scale)
    assert len(small) < 0.7 * len(denoiser_training.to_onnx(model.network, table.scale, int8=False))


def test_the_description_names_the_network(model: Model, tmp_path: Path) -> None:
    denoiser_training.write(model, tmp_path / "new", {"eta": [1, 2]})
    facts = json.loads((tmp_path / "new" / "denoiser.json").read_text())

    assert facts["table"] == [200, SIZE.table]
    assert facts["width"] == SIZE.width
    assert facts["eta"] == [1, 2]
    assert len(facts["sha256"]) == 64
