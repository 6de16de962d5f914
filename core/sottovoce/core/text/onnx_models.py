"""Checks that an ONNX file uses only the parts of Sottovoce's networks.

onnxruntime runs whatever a file contains: a loop without end, functions, other libraries'
operators, weights read from other files. So the file is walked before the runtime sees it. The
tables below list every admitted field (by its number in onnx.proto) and every admitted operator.
All others are refused. An admitted graph ends, because no operator here repeats or branches.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import DataLoss, Remedy

OPERATORS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(
        [
            # tagger and name finder
            *("Add", "Cast", "Concat", "Gather", "Identity", "LayerNormalization", "MatMul"),
            *("Mul", "Pad", "Relu", "Reshape", "Slice", "Split", "Sum"),
            # denoiser
            *("Clip", "ConstantOfShape", "Conv", "Div", "DynamicQuantizeLinear", "Erf", "Expand"),
            *("Log", "MatMulInteger", "Pow", "ReduceL2", "ReduceSum", "Shape", "Sigmoid"),
            *("Softmax", "Squeeze", "Sub", "Transpose", "Unsqueeze"),
            # encoder; its activation is Erf, Relu, Sigmoid or Tanh
            *("CumSum", "Gemm", "Sqrt", "Tanh"),
            # encoders from optimum: attention masks, and rotary positions; all of them
            # compute number by number, but for Range, which counts
            *("Abs", "Cos", "Equal", "LessOrEqual", "Neg", "Range", "Sin", "Where"),
        ]
    ),
    "com.microsoft": frozenset(["MatMulNBits"]),
}
"""The operators of the networks that we write, by domain; ONNX's own domain has no name."""

_INT, _FLOAT, _BYTES = 0, 5, 2
"""Wire types. A list of numbers comes packed, as bytes, or one by one."""
_INTS: Final = (_INT, _BYTES)
_FLOATS: Final = (_FLOAT, _BYTES)
_DOUBLES: Final = (1, _BYTES)

_NODE, _ATTRIBUTE, _TENSOR, _GRAPH, _OPSET = "node", "attribute", "tensor", "graph", "opset"
_ADMITTED: Final[Mapping[str, Mapping[int, Any]]] = {
    # ir_version, producer_name and _version, domain, model_version, doc_string, graph,
    # opset_import, metadata_props; not training_info, functions
    "model": {1: _INT, **dict.fromkeys((2, 3, 4), _BYTES), 5: _INT, 6: _BYTES}
    | {7: _GRAPH, 8: _OPSET, 14: _BYTES},
    # node, name, initializer, doc_string, input, output, value_info; no sparse_initializer
    _GRAPH: {1: _NODE, 2: _BYTES, 5: _TENSOR, **dict.fromkeys((10, 11, 12, 13), _BYTES)},
    # input, output, name, op_type, attribute, doc_string, domain; no overload
    _NODE: {**dict.fromkeys((1, 2, 3, 4, 6, 7), _BYTES), 5: _ATTRIBUTE},
    # name, f, i, s, t, floats, ints, strings, doc_string, type; no graphs, no references
    _ATTRIBUTE: {1: _BYTES, 2: _FLOAT, 3: _INT, 4: _BYTES, 5: _TENSOR, 7: _FLOATS, 8: _INTS}
    | {9: _BYTES, 13: _BYTES, 20: _INT},
    # dims, data_type, float_data, int32_data, int64_data, name, raw_data, double_data, uint64_data,
    # doc_string, data_location; no strings, no external data
    _TENSOR: {1: _INTS, 2: _INT, 4: _FLOATS, 5: _INTS, 7: _INTS, 8: _BYTES, 9: _BYTES}
    | {10: _DOUBLES, 11: _INTS, 12: _BYTES, 14: _INT},
    _OPSET: {1: _BYTES, 2: _INT},
}
_SIZES: Final = {1: 4, 2: 1, 3: 1, 6: 4, 7: 8, 9: 1}
"""Bytes of a number of each admitted type: float32, uint8, int8, int32, int64, bool."""

_MOST: Final = 20_000
"""The most nodes, and initializers, of a graph; a BERT of 24 layers has some 1,200."""
_OPSETS: Final = range(13, 24)
_OWN: Final = ("", "ai.onnx")
_MOST_DIMENSIONS: Final = 8


def check(model: memoryview) -> None:
    """Check that the graph uses only `OPERATORS`, and only weights that lie in the file.

    Raises:
        ValueError: it is not, or no ONNX file; the message says what was found.
    """
    graphs, versions = 0, []
    for number, value in _admitted(model, "model"):
        if number == 7:
            graphs += 1
            _check_graph(_part(value))
        elif number == 8:
            versions += _opset(_part(value))
    if graphs != 1 or len(versions) != 1 or versions[0] not in _OPSETS:
        raise ValueError(f"it has {graphs} graphs, of operator sets {versions[:4]}")


def check_file(file: Path) -> None:
    """Run `check` on a file that need not fit into memory.

    Raises:
        ValueError: see `check`; or the file is empty. OSError: it cannot be read.
    """
    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    check(memoryview(mapped))  # unmapped with its last part, which an error may hold


def _check_graph(graph: memoryview) -> None:
    nodes = tensors = 0
    for number, value in _admitted(graph, _GRAPH):
        if number == 1:
            nodes += 1
            _check_node(_part(value))
        elif number == 5:
            tensors += 1
            _check_tensor(_part(value))
        if max(nodes, tensors) > _MOST:
            raise ValueError(f"it has more than {_MOST} nodes or initializers")


def _check_node(node: memoryview) -> None:
    kinds, domains = [], [""]
    for number, value in _admitted(node, _NODE):
        if number == 4:
            kinds.append(_text(value))
        elif number == 7:
            domains.append(_text(value))
        elif number == 5:
            for inner, tensor in _admitted(_part(value), _ATTRIBUTE):
                if inner == 5:
                    _check_tensor(_part(tensor))
    domain = "" if domains[-1] in _OWN else domains[-1]
    # If a field stands twice, another reader may take the other value.
    if len(kinds) != 1 or len(domains) > 2 or kinds[0] not in OPERATORS.get(domain, ()):
        name = ":".join(filter(None, (domain, *kinds[:1])))
        raise ValueError(f"it has the operator {name[:60]!a}, which no network of ours has")


def _check_tensor(tensor: memoryview) -> None:
    shape: list[int] = []
    kind, raw, others = 0, None, 0
    for number, value in _admitted(tensor, _TENSOR):
        if number == 1:
            shape += [value] if isinstance(value, int) else _varints(value)
        elif number == 2 and isinstance(value, int):
            kind = value
        elif number == 9:
            raw = len(_part(value))
        elif number == 14 and value:
            raise ValueError("it has a tensor in another file")
        elif number in (4, 5, 7, 10, 11):
            others += 1 if isinstance(value, int) else len(value)
    if kind not in _SIZES or len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"it has a tensor of type {kind} and {len(shape)} dimensions")
    numbers = prod(shape)
    if (numbers > others) if raw is None else (numbers * _SIZES[kind] != raw or others):
        raise ValueError("it has a tensor of another size than its shape")


def _opset(opset: memoryview) -> list[int]:
    """Return the version of ONNX's own operators; None for another library's operator set."""
    domain, version = "", 0
    for number, value in _admitted(opset, _OPSET):
        if number == 1:
            domain = _text(value)
        elif isinstance(value, int):
            version = value
    return [version] if domain in _OWN else []


def _admitted(message: memoryview, kind: str) -> Iterator[tuple[int, int | memoryview]]:
    """Return the fields of a message.

    Raises:
        ValueError: one is not listed, or comes in another form than its type has.
    """
    listed = _ADMITTED[kind]
    for number, wire, value in fields(message):
        form = listed.get(number)
        if form is None:
            raise ValueError(f"it has field {number} of a {kind}, which no network of ours has")
        expected = (_BYTES,) if isinstance(form, str) else form
        if wire != expected and wire not in (expected if isinstance(expected, tuple) else ()):
            raise ValueError(f"it has field {number} of a {kind} in another form")
        yield number, value


def fields(message: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield number, wire type and value of the fields of a protobuf message, in order.

    Raises:
        ValueError: it is none, or has groups.
    """
    place, end = 0, len(message)
    while place < end:
        tag, place = _varint(message, place)
        number, wire = tag >> 3, tag & 7
        if not 0 < tag < 1 << 32 or number == 0:
            raise ValueError("it is not an ONNX file")
        if wire == _INT:
            value, place = _varint(message, place)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, place = _varint(message, place)
        elif wire in (1, _FLOAT):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError("it is not an ONNX file")
        if size > end - place:
            raise ValueError("it is cut short")
        yield number, wire, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    found = shift = 0
    while place < len(message) and shift < 64:
        byte = message[place]
        place += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found & (1 << 64) - 1, place
        shift += 7
    raise ValueError("it is cut short")


def _varints(packed: memoryview) -> list[int]:
    if len(packed) > 10 * _MOST_DIMENSIONS:
        raise ValueError(f"it has a tensor of more than {_MOST_DIMENSIONS} dimensions")
    found, place = [], 0
    while place < len(packed):
        value, place = _varint(packed, place)
        found.append(value)
    return found


def _part(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("it is not an ONNX file")
    return value


def _text(value: int | memoryview) -> str:
    part = _part(value)
    if len(part) > 256:
        raise ValueError("it has a name of more than 256 bytes")
    return bytes(part).decode("utf-8", "replace")


def runtime() -> Any:
    """Import ``onnxruntime`` with its telemetry off; it takes 19 MB, so only networks import it.

    As released it reports its use to its makers over the network, unless a setting is made before
    the first import. So nothing else imports it.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    return onnxruntime


class Session:
    """An opened network, which turns onnxruntime's exceptions into `DataLoss`.

    Those exceptions have no common parent, and a network comes from the provider, which is not
    trusted.
    """

    def __init__(self, opened: Any, name: str) -> None:
        self._opened = opened
        self._name = name

    def run(self, outputs: Sequence[str] | None, inputs: Mapping[str, Any]) -> list[Any]:
        """Return the named outputs, or all.

        Raises:
            DataLoss: the network does not take these inputs, or fails.
        """
        try:
            found: list[Any] = self._opened.run(outputs, inputs)
        except Exception:
            raise _damaged(self._name, "it fails on a text") from None  # the cause may quote it
        return found


def session(model: bytes | str, threads: int = 1, *, name: str = "network") -> Session:
    """Open a session on the CPU that keeps no memory between runs.

    Args:
        model: the network, or the path of its file.
        threads: the most threads of one operator.
        name: of its file, for errors.

    Raises:
        DataLoss: it is no network, or has a part that none of our networks has, see `onnx_file`.
    """
    try:
        if isinstance(model, bytes):
            check(memoryview(model))
        else:
            check_file(Path(model))
        onnxruntime = runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # an arena keeps 3 MB, and saves a twentieth of time
        opened = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except ValueError as error:
        raise _damaged(name, str(error)) from None
    except Exception as error:
        raise _damaged(name, "onnxruntime does not take it") from error
    opened._model_bytes = None  # kept for a change of providers, and as large as the network
    return Session(opened, name)


def _damaged(name: str, problem: str) -> DataLoss:
    return DataLoss(
        f"the network {name} cannot be run: {problem}",
        fix=Remedy.RESTORE_BUNDLE,
        subject=name,
    )


# Numbers of fields and types in onnx.proto; whatever else a file holds is skipped.
_GRAPH_FIELD: Final = 7
_INITIALIZER: Final = 5
_DIMS, _TYPE, _NAME, _RAW = 1, 2, 8, 9
_TYPES: Final = {1: "<f4", 3: "i1", 7: "<i8"}


def weights(model: bytes) -> dict[str, NDArray[Any]]:
    """Return the constants of a model by name: float32, int8 or int64, as they lie in the file.

    Raises:
        ValueError: it is no ONNX file, or a constant is of another type or stored otherwise.
    """
    try:
        found = [
            _tensor(tensor)
            for number, _, graph in fields(memoryview(model))
            if number == _GRAPH_FIELD
            for number, _, tensor in fields(graph)  # type: ignore[arg-type]
            if number == _INITIALIZER
        ]
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError("not an ONNX file") from error
    return dict(found)


def _tensor(data: int | memoryview) -> tuple[str, NDArray[Any]]:
    shape: list[Any] = []
    alone: dict[int, Any] = {}
    for number, _, value in fields(data):  # type: ignore[arg-type]
        if number == _DIMS:
            shape.append(value)
        else:
            alone[number] = value
    array = np.frombuffer(alone[_RAW], _TYPES[alone[_TYPE]]).reshape(shape)
    return bytes(alone[_NAME]).decode(), array
