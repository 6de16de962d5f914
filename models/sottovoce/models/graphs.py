"""Writes the networks over a BERT as ONNX graphs, node by node.

`encoder` is the backbone as devices run it, and `finder` the finder `full`. Nothing is traced, and
numbers are merged in double precision. So the same weights give the same bytes with any version of
the libraries, and no torch is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from sottovoce.core.bundle.encoder import Layer
from sottovoce.core.bundle.full_finder import CASES, LONGEST
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.schema import Range
from sottovoce.core.text.names import KINDS

OPSET: Final = 18
_IR_VERSION: Final = 9
_MOST: Final = 127
"""The largest whole number of a weight."""

_BITS: Final = 8
_BLOCK: Final = 128
_ZERO: Final = 128
"""The unsigned byte that stands for 0."""

Weights = Callable[[str], NDArray[np.float64]]
"""Gives a tensor of a BERT by its name, as `transformers` names it, without a prefix."""


@dataclass(frozen=True, slots=True)
class Bert:
    """The fields of a BERT's ``config.json`` that make the graph."""

    num_hidden_layers: Annotated[int, Range(1, 1_024)]
    num_attention_heads: Annotated[int, Range(1, 1_024)]
    hidden_size: Annotated[int, Range(1, 1 << 16)]
    max_position_embeddings: Annotated[int, Range(1, 1 << 20)]
    layer_norm_eps: Annotated[float, Range(0, 1)] = 1e-12


Pooled = Callable[[NDArray[np.int64]], NDArray[np.float32]]
"""Gives the mean of a backbone's last states, Floats1d (width,), for the ids of a text."""


@dataclass(frozen=True, slots=True)
class Exact:
    """A graph without rounding.

    Attributes:
        network: the graph, see `encoder`.
        layers: that take low-rank updates.
        positions: of the backbone.
        prefix: see `Shape.prefix`.
        pooled: computes the same by torch, if it was loaded.
    """

    network: bytes
    layers: tuple[Layer, ...]
    positions: int
    prefix: int
    pooled: Pooled | None


def refused(why: str) -> InvalidInput:
    """Return the error for a backbone that no device can run."""
    return InvalidInput(
        f"this backbone cannot be an encoder for devices: {why}",
        fix="build without --encoder, or over another backbone",
        subject="backbone",
    )


UPDATED: Final = (
    *(f"attention.self.{part}" for part in ("query", "key", "value")),
    "attention.output.dense",
)
"""The linear layers of each block to which low-rank updates are added, in their order."""


def layers(config: Bert) -> list[str]:
    """Return the names of the blocks."""
    return [f"encoder.layer.{depth}" for depth in range(config.num_hidden_layers)]


def encoder(weights: Weights, config: Bert) -> bytes:
    """Return the graph for one text of n tokens, P virtual tokens included, under one adapter.

    Inputs are float32: ``embeddings`` (n, width), ``weights`` (n,), ``lora`` (rank, `Shape.lora`)
    and ``prefix`` (virtual keys, `Shape.prefix`). The output ``pooled`` float32 (width,) is the
    weighted sum of the states. One graph serves every adapter.

    Args:
        weights, config: of the BERT.
    """
    graph = _Graph(weights, config)
    depth, width = config.num_hidden_layers, config.hidden_size
    updates = iter(graph.split("lora", 2 * len(UPDATED) * depth))
    virtual = iter(graph.split("prefix", 2 * depth))

    def updated(state: str, layer: str) -> str:
        down = graph.add("MatMul", [state, graph.add("Transpose", [next(updates)], perm=[1, 0])])
        update = graph.add("MatMul", [down, next(updates)])
        return graph.add("Add", [graph.linear(state, layer), update])

    state = graph.norm(graph.add("Add", ["embeddings", graph.places()]), "embeddings")
    for layer in layers(config):
        query, key, value = (updated(state, f"{layer}.{part}") for part in UPDATED[:3])
        key, value = (graph.add("Concat", [next(virtual), rows], axis=0) for rows in (key, value))
        query = graph.add("Mul", [query, graph.constant("scale", graph.scale)])
        seen = graph.attention(query, key, value)
        state = graph.block(state, updated(seen, f"{layer}.{UPDATED[3]}"), layer)
    graph.add("MatMul", ["weights", state], output="pooled")
    lora, prefix = 2 * len(UPDATED) * depth * width, 2 * depth * width
    return graph.serialized(
        "encoder",
        {
            "embeddings": (TensorProto.FLOAT, ["n", width]),
            "weights": (TensorProto.FLOAT, ["n"]),
            "lora": (TensorProto.FLOAT, ["rank", lora]),
            "prefix": (TensorProto.FLOAT, ["keys", prefix]),
        },
        {"pooled": (TensorProto.FLOAT, [width])},
    )


def finder(
    weights: Weights,
    config: Bert,
    trained: Mapping[str, NDArray[Any]],
    *,
    int8: bool = True,
) -> bytes:
    """Return the graph of the finder `full`.

    Inputs are ``embeddings`` float32 (n, width) of word pieces, and their ``cases`` int64 (n,).
    The output ``likely`` float32 (n, kinds) holds probabilities.

    Args:
        weights, config: of the BERT that the adapter was trained on.
        trained: the adapter, case vectors and head, see `FullNetwork.save`.
        int8: round the matrices to bytes. Tests compare the graph without rounding.

    Raises:
        ValueError: the adapter is of another model.
    """
    added = {name: np.asarray(value, np.float64) for name, value in trained.items()}
    width = config.hidden_size
    if added["case.weight"].shape != (len(CASES), width) or len(added["out.bias"]) != len(KINDS):
        raise ValueError("the adapter is of another model")

    def merged(name: str) -> NDArray[np.float64]:
        """W + B A of a linear layer: (outputs, inputs)."""
        layer = name.removesuffix(".weight")
        if f"{layer}.up.weight" not in added:
            return weights(name)
        return weights(name) + added[f"{layer}.up.weight"] @ added[f"{layer}.down.weight"]

    graph = _Graph(merged, config, int8)
    here = graph.places(LONGEST)
    case = graph.add("Gather", [graph.constant("case", added["case.weight"]), "cases"])
    state = graph.add("Add", [graph.add("Add", ["embeddings", case]), here])
    state = graph.norm(state, "embeddings")
    for layer in layers(config):
        query, key, value = graph.split(graph.projections(state, f"{layer}.attention.self"), 3)
        seen = graph.attention(query, key, value)
        state = graph.block(state, graph.linear(seen, f"{layer}.{UPDATED[3]}"), layer)
    scores = graph.add("MatMul", [state, graph.constant("out.weight", added["out.weight"].T)])
    scores = graph.add("Add", [scores, graph.constant("out.bias", added["out.bias"])])
    graph.add("Softmax", [scores], output="likely", axis=-1)
    return graph.serialized(
        "full_finder",
        {"embeddings": (TensorProto.FLOAT, ["n", width]), "cases": (TensorProto.INT64, ["n"])},
        {"likely": (TensorProto.FLOAT, ["n", len(KINDS)])},
    )


def rounded(network: bytes) -> bytes:
    """Return a graph with bytes in place of every matrix that lies in it.

    Bytes have a scale for every `_BLOCK` numbers of a column. Activations are rounded in the same
    way (ONNX Runtime's MatMulNBits). On film reviews, one scale a matrix, as in `quantize_dynamic`
    and optimum's quantizer, left a mean cosine of .991 with the original (at worst .982). This
    rounding leaves .9989 (at worst .996) in the same bytes.
    """
    graph = onnx.load_from_string(network)
    kept = {each.name: each for each in graph.graph.initializer}
    nodes = []
    for node in graph.graph.node:
        if node.op_type not in ("MatMul", "Gemm") or node.input[1] not in kept:
            nodes.append(node)
            continue
        name, result = node.input[1], node.output[0]
        matrix = numpy_helper.to_array(kept.pop(name))
        # A Gemm holds (outputs, inputs), a MatMul (inputs, outputs).
        rows, scales = _blocks(matrix if node.op_type == "Gemm" else matrix.T)
        kept[f"{name}.rows"] = numpy_helper.from_array(rows, f"{name}.rows")
        kept[f"{name}.scales"] = numpy_helper.from_array(scales, f"{name}.scales")
        inputs = matrix.shape[1 if node.op_type == "Gemm" else 0]
        bias = node.input[2:]
        product = f"{result}.product" if bias else result
        nodes.append(
            helper.make_node(
                "MatMulNBits",
                [node.input[0], f"{name}.rows", f"{name}.scales"],
                [product],
                domain="com.microsoft",
                K=inputs,
                N=len(rows),
                bits=_BITS,
                block_size=_BLOCK,
                accuracy_level=4,  # products of bytes, where a processor has them
            )
        )
        if bias:
            nodes.append(helper.make_node("Add", [product, bias[0]], [result]))
    del graph.graph.node[:], graph.graph.initializer[:]
    graph.graph.node.extend(nodes)
    graph.graph.initializer.extend(kept.values())
    graph.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return bytes(graph.SerializeToString())


def _blocks(matrix: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return a matrix (outputs, inputs) as MatMulNBits takes it.

    Returns:
        Bytes (outputs, blocks, block), and the scales of the blocks.
    """
    outputs, inputs = matrix.shape
    blocks = -(-inputs // _BLOCK)
    padded = np.pad(matrix, ((0, 0), (0, blocks * _BLOCK - inputs)))
    apart = padded.reshape(outputs, blocks, _BLOCK)
    scales = np.maximum(np.abs(apart).max(axis=2, keepdims=True), 1e-12) / (_ZERO - 1)
    whole = (np.rint(apart / scales) + _ZERO).astype(np.uint8)
    return whole, scales.reshape(-1).astype(np.float32)


class _Graph:
    """Nodes and constants over one BERT, with a name for each result."""

    def __init__(self, weights: Weights, config: Bert, int8: bool = False) -> None:
        self._weights = weights
        self._heads, self._width = config.num_attention_heads, config.hidden_size
        self._positions, self._epsilon = config.max_position_embeddings, config.layer_norm_eps
        self._int8 = int8
        self._nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self.scale = 1 / math.sqrt(self._width // self._heads)

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

    def places(self, longest: int | None = None) -> str:
        """Return the vectors of the positions of a text."""
        own = "embeddings"
        table = self._weights(f"{own}.position_embeddings.weight")
        if table.shape != (self._positions, self._width):
            raise ValueError("the table of positions has another size")
        places = table[:longest] + self._weights(f"{own}.token_type_embeddings.weight")[0]
        length = self.add("Shape", ["embeddings"], end=1)
        begin = self.constant("places", places), self.whole("begin", [0])
        return self.add("Slice", [*begin, length])

    def norm(self, state: str, place: str) -> str:
        layer = f"{place}.LayerNorm"
        scale, bias = (
            self.constant(f"{layer}.{part}", self._weights(f"{layer}.{part}"))
            for part in ("weight", "bias")
        )
        return self.add("LayerNormalization", [state, scale, bias], axis=-1, epsilon=self._epsilon)

    def linear(self, state: str, layer: str) -> str:
        """Return the result of a linear layer."""
        matrix, bias = (self._weights(f"{layer}.{part}") for part in ("weight", "bias"))
        return self._product(state, layer, matrix, bias)

    def projections(self, state: str, layer: str) -> str:
        """Return queries, already scaled, keys and values beside each other."""
        parts = [f"{layer}.{part}" for part in ("query", "key", "value")]
        query, *rest = (self._weights(f"{part}.weight") for part in parts)
        bias, *biases = (self._weights(f"{part}.bias") for part in parts)
        matrix = np.concatenate([query * self.scale, *rest])
        return self._product(state, layer, matrix, np.concatenate([bias * self.scale, *biases]))

    def attention(self, query: str, key: str, value: str) -> str:
        """Return the attention's mean of values for each token. Queries are scaled already."""

        def by_head(rows: str, order: list[int]) -> str:
            shape = [-1, self._heads, self._width // self._heads]
            apart = self.add("Reshape", [rows, self.whole("heads", shape)])
            return self.add("Transpose", [apart], perm=order)

        scores = self.add("MatMul", [by_head(query, [1, 0, 2]), by_head(key, [1, 2, 0])])
        shares = self.add("Softmax", [scores], axis=-1)
        seen = self.add("MatMul", [shares, by_head(value, [1, 0, 2])])
        seen = self.add("Transpose", [seen], perm=[1, 0, 2])
        return self.add("Reshape", [seen, self.whole("joined", [-1, self._width])])

    def block(self, state: str, seen: str, layer: str) -> str:
        """Return the state behind the rest of a layer, after the attention's last product."""
        state = self.norm(self.add("Add", [seen, state]), f"{layer}.attention.output")
        wide = self._gelu(self.linear(state, f"{layer}.intermediate.dense"))
        narrow = self.linear(wide, f"{layer}.output.dense")
        return self.norm(self.add("Add", [narrow, state]), f"{layer}.output")

    def _product(
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

    def _gelu(self, state: str) -> str:
        """Return x (1 + erf(x / sqrt 2)) / 2, in the form that onnxruntime runs as one step."""
        root, one = self.constant("root", math.sqrt(2)), self.constant("one", 1)
        error = self.add("Erf", [self.add("Div", [state, root])])
        product = self.add("Mul", [state, self.add("Add", [error, one])])
        return self.add("Mul", [product, self.constant("half", 0.5)])

    def serialized(
        self,
        name: str,
        inputs: Mapping[str, tuple[int, list[Any]]],
        outputs: Mapping[str, tuple[int, list[Any]]],
    ) -> bytes:
        graph = helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info(name, *told) for name, told in inputs.items()],
            [helper.make_tensor_value_info(name, *told) for name, told in outputs.items()],
            [numpy_helper.from_array(value, key) for key, value in self._constants.items()],
        )
        sets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=_IR_VERSION)
        model.producer_name = ""
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))
