"""The graph computes what the network does, in a quarter of the bytes."""

import numpy as np
import torch

from sottovoce.core.text.onnx_models import session
from sottovoce.models.tagger.network import Network, Size
from sottovoce.models.tagger.onnx_graph import to_onnx


def trained_like(size: Size) -> Network:
    torch.manual_seed(3)
    network = Network(size).eval()
    for norm in network.modules():
        if isinstance(norm, torch.nn.LayerNorm):  # as after training: not all ones and zeros
            torch.nn.init.normal_(norm.weight, 1, 0.1)
            torch.nn.init.normal_(norm.bias, 0, 0.1)
    return network


def test_agrees_with_the_network_up_to_rounding() -> None:
    network = trained_like(Size(rows=(40,) * 8, feature_width=16, width=32, depth=3))
    opened = session(to_onnx(network))
    rows = np.random.default_rng(4).integers(0, 320, (50, 16)).astype(np.int32)
    (logits,) = opened.run(None, {"rows": rows})
    with torch.inference_mode():
        expected = network(torch.from_numpy(rows)[None], torch.ones(1, 50))[0].numpy()
    assert np.abs(logits - expected).max() < 0.05 * expected.std()


def test_one_word_is_enough() -> None:
    network = trained_like(Size(rows=(9,) * 8, feature_width=4, width=8, depth=4))
    opened = session(to_onnx(network))
    (logits,) = opened.run(None, {"rows": np.zeros((1, 16), np.int32)})
    assert logits.shape == (1, 17)
    assert np.isfinite(logits).all()


def test_weights_take_one_byte_and_the_graph_is_the_same_each_time() -> None:
    network = trained_like(Size())
    graph = to_onnx(network)
    assert graph == to_onnx(network)
    assert len(graph) < 1.1 * sum(weight.numel() for weight in network.parameters()) + 50_000
