"""Writes the finder `full` as an ONNX graph, node by node.

The graph is not traced, and its weights are merged in double precision. So the same adapter gives
the same bytes with any version of torch, and devices can know the graph by its hash.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.core.bundle.encoder import TABLE
from sottovoce.core.bundle.full_finder import CASES, LONGEST, Pins
from sottovoce.core.bundle.manifest import FULL_FINDER, sha256
from sottovoce.core.bundle.tokenizer import VOCABULARY
from sottovoce.core.text.names import KINDS
from sottovoce.models.context_finder.full import ADAPTER
from sottovoce.models.encoder import OPSET, write_table, write_tokenizer

__all__ = ["pin", "to_onnx", "write"]

_IR_VERSION: Final = 9
_MOST: Final = 127
"""The largest whole number of a weight."""


def to_onnx(model: Any, trained: Mapping[str, NDArray[Any]], *, int8: bool = True) -> bytes:
    """Return the graph.

    Inputs are ``embeddings`` float32 (n, width) of word pieces, and their ``cases`` int64 (n,).
    The output ``likely`` float32 (n, kinds) holds probabilities.

    Args:
        model: the BERT that the adapter was trained on.
        trained: the adapter, case vectors and head, see `FullNetwork.save`.
        int8: round the matrices to bytes. Tests compare the graph without rounding.
    """
    stored = {name: value.numpy().astype(np.float64) for name, value in model.state_dict().items()}
    added = {name: np.asarray(value, np.float64) for name, value in trained.items()}
    graph = _Graph(int8)
    config = model.config
    heads, width = config.num_attention_heads, config.hidden_size
    epsilon = config.layer_norm_eps

    def merged(layer: str) -> NDArray[np.float64]:
        """W + B A of a linear layer: (outputs, inputs)."""
        update = added[f"{layer}.up.weight"] @ added[f"{layer}.down.weight"]
        return np.asarray(stored[f"{layer}.weight"] + update)

    def linear(state: str, layer: str) -> str:
        return graph.linear(state, layer, merged(layer), stored[f"{layer}.bias"])

    def norm(state: str, layer: str) -> str:
        scale = graph.constant(f"{layer}.weight", stored[f"{layer}.weight"])
        bias = graph.constant(f"{layer}.bias", stored[f"{layer}.bias"])
        return graph.add("LayerNormalization", [state, scale, bias], axis=-1, epsilon=epsilon)

    def by_head(state: str, order: list[int]) -> str:
        rows = graph.add("Reshape", [state, graph.whole("heads", [-1, heads, width // heads])])
        return graph.add("Transpose", [rows], perm=order)

    own = "embeddings"
    places = (
        stored[f"{own}.position_embeddings.weight"][:LONGEST]
        + stored[f"{own}.token_type_embeddings.weight"][0]
    )
    length = graph.add("Shape", ["embeddings"], end=1)
    here = graph.add("Slice", [graph.constant("places", places), graph.whole("begin", [0]), length])
    case = graph.add("Gather", [graph.constant("case", added["case.weight"]), "cases"])
    state = graph.add("Add", [graph.add("Add", ["embeddings", case]), here])
    state = norm(state, f"{own}.LayerNorm")
    for depth in range(config.num_hidden_layers):
        name = f"encoder.layer.{depth}"
        parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        weights, biases = map(merged, parts), (stored[f"{part}.bias"] for part in parts)
        scale = 1 / math.sqrt(width // heads)
        first, *rest = weights
        first_bias, *rest_bias = biases
        together = graph.linear(
            state,
            f"{name}.attention.self",
            np.concatenate([first * scale, *rest]),
            np.concatenate([first_bias * scale, *rest_bias]),
        )
        query, key, value = graph.split(together, 3)
        scores = graph.add("MatMul", [by_head(query, [1, 0, 2]), by_head(key, [1, 2, 0])])
        shares = graph.add("Softmax", [scores], axis=-1)
        seen = graph.add("MatMul", [shares, by_head(value, [1, 0, 2])])
        seen = graph.add("Transpose", [seen], perm=[1, 0, 2])
        seen = graph.add("Reshape", [seen, graph.whole("joined", [-1, width])])
        seen = linear(seen, f"{name}.attention.output.dense")
        state = norm(graph.add("Add", [seen, state]), f"{name}.attention.output.LayerNorm")
        wide = graph.gelu(linear(state, f"{name}.intermediate.dense"))
        narrow = linear(wide, f"{name}.output.dense")
        state = norm(graph.add("Add", [narrow, state]), f"{name}.output.LayerNorm")
    scores = graph.add("MatMul", [state, graph.constant("out.weight", added["out.weight"].T)])
    scores = graph.add("Add", [scores, graph.constant("out.bias", added["out.bias"])])
    graph.add("Softmax", [scores], output="likely", axis=-1)
    if added["case.weight"].shape != (len(CASES), width) or len(added["out.bias"]) != len(KINDS):
        raise ValueError("the adapter is of another model")
    return graph.serialized(
        {"embeddings": (TensorProto.FLOAT, ["n", width]), "cases": (TensorProto.INT64, ["n"])},
        {"likely": (TensorProto.FLOAT, ["n", len(KINDS)])},
    )


def write(backbone: LoadedBackbone, folder: Path, vocabulary: Path) -> bool:
    """Write `FULL_FINDER` into ``folder`` if devices would take it over this backbone.

    Args:
        backbone: of the bundle.
        folder: already holds the encoder, whose token table the finder shares.
        vocabulary: the bundle's file of tokens.

    Returns:
        Whether it was written. Devices take it over the default backbone alone.
    """
    known, table = Pins.shipped(), folder / TABLE
    shared = (table, known.table), (vocabulary, known.vocabulary)
    if not all(file.is_file() and sha256(file) == pinned for file, pinned in shared):
        return False
    network = to_onnx(backbone.model, load_file(ADAPTER))
    if hashlib.sha256(network).hexdigest() != known.network:
        return False
    (folder / FULL_FINDER).write_bytes(network)
    return True


def pin(backbone: LoadedBackbone, adapter: Path, to: Path) -> int:
    """Write the hashes of the files that the adapter gives, and return the graph's size in bytes.

    Args:
        backbone: that the adapter was trained on.
        adapter: see `FullNetwork.save`.
        to: the file to write, see `PINS`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        network = to_onnx(backbone.model, load_file(adapter))
        (folder / FULL_FINDER).write_bytes(network)
        write_table(backbone, folder)
        write_tokenizer(backbone.tokenizer, folder)
        pins = Pins.of(folder, folder / VOCABULARY, backbone.tokenizer)
    to.write_text(pins.to_json(), encoding="utf-8")
    return len(network)


class _Graph:
    """Nodes and constants, with a name for each result."""

    def __init__(self, int8: bool) -> None:
        self._int8 = int8
        self._nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}

    def add(self, kind: str, inputs: list[str], *, output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result."""
        output = output or f"{kind}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def split(self, state: str, parts: int) -> list[str]:
        outputs = [f"Split{len(self._nodes)}.{part}" for part in range(parts)]
        node = helper.make_node("Split", [state], outputs, axis=1, num_outputs=parts)
        self._nodes.append(node)
        return outputs

    def constant(self, name: str, value: NDArray[np.float64] | float) -> str:
        self._constants[name] = np.asarray(value, np.float32)
        return name

    def whole(self, name: str, value: list[int]) -> str:
        self._constants[name] = np.array(value, np.int64)
        return name

    def linear(
        self, state: str, name: str, matrix: NDArray[np.float64], bias: NDArray[np.float64]
    ) -> str:
        """Return x W^T + b, with W (outputs, inputs)."""
        if self._int8:
            scales = np.maximum(np.abs(matrix).max(axis=1), 1e-12) / _MOST
            self._constants[f"{name}.rows"] = np.rint(matrix.T / scales).astype(np.int8)
            whole, scale, zero = self._rounded(state)
            product = self.add("MatMulInteger", [whole, f"{name}.rows", zero])
            product = self.add("Cast", [product], to=TensorProto.FLOAT)
            scale = self.add("Mul", [scale, self.constant(f"{name}.scales", scales)])
            product = self.add("Mul", [product, scale])
        else:
            product = self.add("MatMul", [state, self.constant(f"{name}.weight", matrix.T)])
        return self.add("Add", [product, self.constant(f"{name}.bias", bias)])

    def _rounded(self, state: str) -> list[str]:
        """Return a state as bytes, with their scale and zero."""
        outputs = [f"{state}.{part}" for part in ("whole", "scale", "zero")]
        self._nodes.append(helper.make_node("DynamicQuantizeLinear", [state], outputs))
        return outputs

    def gelu(self, state: str) -> str:
        """Return x (1 + erf(x / sqrt 2)) / 2, in the form that onnxruntime runs as one step."""
        root, one = self.constant("root", math.sqrt(2)), self.constant("one", 1)
        error = self.add("Erf", [self.add("Div", [state, root])])
        product = self.add("Mul", [state, self.add("Add", [error, one])])
        return self.add("Mul", [product, self.constant("half", 0.5)])

    def serialized(
        self,
        inputs: Mapping[str, tuple[int, list[Any]]],
        outputs: Mapping[str, tuple[int, list[Any]]],
    ) -> bytes:
        graph = helper.make_graph(
            self._nodes,
            "full_finder",
            [helper.make_tensor_value_info(name, *told) for name, told in inputs.items()],
            [helper.make_tensor_value_info(name, *told) for name, told in outputs.items()],
            [numpy_helper.from_array(value, name) for name, value in self._constants.items()],
        )
        sets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=_IR_VERSION)
        model.producer_name = ""
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))
