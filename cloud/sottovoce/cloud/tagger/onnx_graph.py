"""Writes a trained network as an ONNX graph whose weights are whole numbers of one byte.

Only weights are rounded, one scale a row of the table and a column of each matrix. Rounding
activations too would need one scale for a whole document, and then a word's tag would depend on
words far away. The graph is written node by node: it is short, and it comes out the same each time.
"""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from sottovoce.cloud.tagger.network import Network
from sottovoce.core.text.tagger import HASHES, UPOS

_OPSET = 18
_IR = 9  # what onnxruntime 1.20 reads


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, out: str, **settings: Any) -> str:
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=out, **settings))
        return out

    def weight(self, name: str, rows: Tensor, *, transposed: bool = False) -> str:
        """A matrix kept as bytes, one scale a row, and turned back when the graph is opened."""
        whole, scale = _rounded(_array(rows))
        stored = self.constant(f"{name}.whole", whole.T if transposed else whole)
        scales = self.constant(f"{name}.scale", scale if transposed else scale[:, None])
        as_float = self.add("Cast", stored, out=f"{name}.float", to=TensorProto.FLOAT)
        return self.add("Mul", as_float, scales, out=f"{name}.scaled")

    def lookup(self, name: str, rows: Tensor, ids: str) -> str:
        """Rows of a table of bytes, turned back after the look-up: the table is never unpacked."""
        whole, scale = _rounded(_array(rows))
        found = self.add("Gather", self.constant(f"{name}.whole", whole), ids, out=f"{name}.found")
        scales = self.constant(f"{name}.scale", scale[:, None])
        by = self.add("Gather", scales, ids, out=f"{name}.by")
        as_float = self.add("Cast", found, out=f"{name}.float", to=TensorProto.FLOAT)
        return self.add("Mul", as_float, by, out=f"{name}.scaled")

    def linear(self, name: str, layer: nn.Module, state: str) -> str:
        assert isinstance(layer, nn.Linear)
        weight = self.weight(name, layer.weight, transposed=True)
        product = self.add("MatMul", state, weight, out=f"{name}.product")
        bias = self.constant(f"{name}.bias", _array(layer.bias))
        return self.add("Add", product, bias, out=f"{name}.sum")

    def norm(self, name: str, layer: nn.Module, state: str) -> str:
        assert isinstance(layer, nn.LayerNorm)
        scaled = self.add(
            "LayerNormalization",
            state,
            self.constant(f"{name}.gain", _array(layer.weight)),
            self.constant(f"{name}.shift", _array(layer.bias)),
            out=f"{name}.normed",
            epsilon=layer.eps,
        )
        return self.add("Relu", scaled, out=f"{name}.relu")


def to_onnx(network: Network) -> bytes:
    """The graph: `rows` int32 (n_words, features * HASHES) -> `logits` float32 (n_words, tags)."""
    graph = _Graph()
    n_features, width = len(network.size.rows), network.size.feature_width
    looked_up = graph.lookup("table", network.table.weight, "rows")  # (n, F * HASHES, width)
    by_hash = graph.constant("by_hash", np.array([-1, n_features, HASHES * width]))
    flat = graph.constant("flat", np.array([-1, n_features * width]))
    state = graph.add("Reshape", looked_up, by_hash, out="apart")
    hashes = [f"hash{i}" for i in range(HASHES)]
    graph.nodes.append(helper.make_node("Split", [state], hashes, axis=2, num_outputs=HASHES))
    state = graph.add("Sum", *hashes, out="summed")
    state = graph.add("Reshape", state, flat, out="features")
    state = graph.norm("mix_norm", network.mix_norm, graph.linear("mix", network.mix, state))
    pad = graph.constant("pad", np.array([1, 0, 1, 0]))
    zero, two = graph.constant("zero", np.array([0])), graph.constant("two", np.array([2]))
    minus_two = graph.constant("minus_two", np.array([-2]))
    end = graph.constant("end", np.array([np.iinfo(np.int64).max]))
    for i, (layer, norm) in enumerate(zip(network.layers, network.norms, strict=True)):
        padded = graph.add("Pad", state, pad, out=f"padded{i}")
        left = graph.add("Slice", padded, zero, minus_two, zero, out=f"left{i}")
        right = graph.add("Slice", padded, two, end, zero, out=f"right{i}")
        around = graph.add("Concat", left, state, right, out=f"around{i}", axis=1)
        change = graph.norm(f"norm{i}", norm, graph.linear(f"layer{i}", layer, around))
        state = graph.add("Add", state, change, out=f"state{i}")
    graph.add("Identity", graph.linear("out", network.out, state), out="logits")
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "tagger",
            [helper.make_tensor_value_info("rows", TensorProto.INT32, ["n", n_features * HASHES])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", len(UPOS)])],
            graph.constants,
        ),
        producer_name="sottovoce",
        ir_version=_IR,
        opset_imports=[helper.make_opsetid("", _OPSET)],
    )
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _array(weight: Tensor) -> NDArray[np.float32]:
    return weight.detach().cpu().numpy().astype(np.float32)


def _rounded(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    scale = np.maximum(np.abs(weight).max(axis=1), 1e-12) / 127
    return np.rint(weight / scale[:, None]).astype(np.int8), scale.astype(np.float32)
