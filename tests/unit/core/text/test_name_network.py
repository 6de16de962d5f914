"""NumPy gives what onnxruntime gives, and of one word the same to the bit wherever it stands."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.text.names import NameNetwork
from sottovoce.core.text.onnx_models import session, weights
from sottovoce.core.text.tagger import FEATURES, HASHES
from sottovoce.core.text.word_shapes import LOOKS
from tests.support.paths import MODELS

MODEL = (MODELS / "names" / "names.onnx").read_bytes()


@pytest.fixture(scope="module")
def network() -> NameNetwork:
    return NameNetwork(weights(MODEL))


def inputs(n: int) -> dict[str, NDArray[np.int32]]:
    random = np.random.default_rng(n)
    rows = random.integers(20_992, size=(n, len(FEATURES) * HASHES), dtype=np.int32)
    return {"rows": rows, "looks": random.integers(1, LOOKS, size=n, dtype=np.int32)}


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 300])
def test_as_onnxruntime_does(network: NameNetwork, n: int) -> None:
    opened = session(MODEL)
    (expected,) = opened.run(None, inputs(n))
    (found,) = network.run(None, inputs(n))
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_what_is_known_of_a_word_adds_up(network: NameNetwork) -> None:
    given = inputs(40)
    by_feature = given["rows"].reshape(40, len(FEATURES), HASHES)
    parts = [
        network.first(by_feature[:, places].reshape(40, -1), places)
        for places in ([0, 2, 3], [1, 4, 5, 6, 7])
    ]
    found = network.scores(parts[0] + parts[1], given["looks"])
    np.testing.assert_allclose(found, network.run(None, given)[0], atol=2e-5)


def test_a_word_is_the_same_to_the_bit_among_any_others(network: NameNetwork) -> None:
    rows = inputs(100)["rows"]
    every = range(len(FEATURES))
    whole = network.first(rows, every)
    for part in (slice(0, 1), slice(13, 14), slice(50, 83)):
        np.testing.assert_array_equal(network.first(rows[part], every), whole[part])
