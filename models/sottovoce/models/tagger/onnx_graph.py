"""Writes a trained network as an ONNX graph whose weights are whole numbers of one byte.

Only weights are rounded, one scale a row of the table and a column of each matrix. Rounding
activations too would need one scale for a whole document, and then a word's tag would depend on
words far away. The graph is written node by node: it is short, and it comes out the same each time.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from sottovoce.core.text.tagger import HASHES, UPOS
from sottovoce.models.tagger.network import Forms, Network

_OPSET = 18
_IR = 9  # what onnxruntime 1.20 reads


class Graph:
    """Nodes and constants of a graph while it is written."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """A tensor that is part of the file."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, out: str, **settings: Any) -> str:
        """A node with one output."""
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

    def forms(self, forms: Forms) -> str:
        """What the input `rows` tells of the words, looked up, summed and mixed: (n, width)."""
        width = forms.table.embedding_dim
        n_features = forms.mix.in_features // width
        looked_up = self.lookup("table", forms.table.weight, "rows")  # (n, F * HASHES, width)
        by_hash = self.constant("by_hash", np.array([-1, n_features, HASHES * width]))
        flat = self.constant("flat", np.array([-1, n_features * width]))
        apart = self.add("Reshape", looked_up, by_hash, out="apart")
        hashes = [f"hash{i}" for i in range(HASHES)]
        self.nodes.append(helper.make_node("Split", [apart], hashes, axis=2, num_outputs=HASHES))
        summed = self.add("Sum", *hashes, out="summed")
        features = self.add("Reshape", summed, flat, out="features")
        return self.norm("mix_norm", forms.norm, self.linear("mix", forms.mix, features))

    def around(self, number: int, state: str, distance: int = 1) -> str:
        """Each row between those `distance` before and after it, zeros beyond the ends."""
        pad = self.constant(f"pad{number}", np.array([distance, 0, distance, 0]))
        padded = self.add("Pad", state, pad, out=f"padded{number}")
        rows = self.constant(f"rows{number}", np.array([0]))
        to = self.constant(f"to{number}", np.array([-2 * distance]))
        since = self.constant(f"since{number}", np.array([2 * distance]))
        end = self.constant(f"end{number}", np.array([np.iinfo(np.int64).max]))
        left = self.add("Slice", padded, rows, to, rows, out=f"left{number}")
        right = self.add("Slice", padded, since, end, rows, out=f"right{number}")
        return self.add("Concat", left, state, right, out=f"around{number}", axis=1)

    def linear(self, name: str, layer: nn.Module, state: str) -> str:
        """A matrix and its bias."""
        assert isinstance(layer, nn.Linear)
        weight = self.weight(name, layer.weight, transposed=True)
        product = self.add("MatMul", state, weight, out=f"{name}.product")
        bias = self.constant(f"{name}.bias", _array(layer.bias))
        return self.add("Add", product, bias, out=f"{name}.sum")

    def norm(self, name: str, layer: nn.Module, state: str) -> str:
        """A layer normalisation, and what is below zero cut off."""
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

    def model(self, name: str, inputs: Mapping[str, tuple[int, ...]], n_scores: int) -> bytes:
        """The file: whole numbers in, by name and shape of a row, `logits` (n, n_scores) out."""
        model = helper.make_model(
            helper.make_graph(
                self.nodes,
                name,
                [
                    helper.make_tensor_value_info(name, TensorProto.INT32, ["n", *row])
                    for name, row in inputs.items()
                ],
                [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", n_scores])],
                self.constants,
            ),
            producer_name="sottovoce",
            ir_version=_IR,
            opset_imports=[helper.make_opsetid("", _OPSET)],
        )
        onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())


def to_onnx(network: Network) -> bytes:
    """The graph: `rows` int32 (n_words, features * HASHES) -> `logits` float32 (n_words, tags)."""
    graph = Graph()
    state = graph.forms(network.forms)
    for i, (layer, norm) in enumerate(zip(network.layers, network.norms, strict=True)):
        change = graph.norm(
            f"norm{i}", norm, graph.linear(f"layer{i}", layer, graph.around(i, state))
        )
        state = graph.add("Add", state, change, out=f"state{i}")
    graph.add("Identity", graph.linear("out", network.out, state), out="logits")
    inputs = {"rows": (len(network.size.rows) * HASHES,)}
    return graph.model("tagger", inputs, len(UPOS))


def _array(weight: Tensor) -> NDArray[np.float32]:
    return weight.detach().cpu().numpy().astype(np.float32)


def _rounded(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    scale = np.maximum(np.abs(weight).max(axis=1), 1e-12) / 127
    return np.rint(weight / scale[:, None]).astype(np.int8), scale.astype(np.float32)
