"""Reads the weights out of an ONNX file without a runtime for it.

Why it is here: to import onnxruntime takes 19 MB and a twentieth of a second, and a network of five
matrix products needs nothing that NumPy does not have. The file stays what any runtime can open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from numpy.typing import NDArray

__all__ = ["weights"]

# Numbers of fields and types in onnx.proto; whatever else a file holds is skipped.
_GRAPH: Final = 7
_INITIALIZER: Final = 5
_DIMS, _TYPE, _NAME, _RAW = 1, 2, 8, 9
_TYPES: Final = {1: "<f4", 3: "i1", 7: "<i8"}


def weights(model: bytes) -> dict[str, NDArray[Any]]:
    """The constants of a model by name: float32, int8 or int64, as they lie in the file.

    Raises:
        ValueError: it is no ONNX file, or a constant is of another type or stored otherwise.
    """
    try:
        found = [
            _tensor(tensor)
            for number, graph in _fields(model)
            if number == _GRAPH
            for number, tensor in _fields(graph)
            if number == _INITIALIZER
        ]
    except (DecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError("not an ONNX file") from error
    return dict(found)


def _tensor(data: bytes) -> tuple[str, NDArray[Any]]:
    shape: list[int] = []
    alone: dict[int, Any] = {}
    for number, value in _fields(data):
        if number == _DIMS:
            shape.append(value)
        else:
            alone[number] = value
    array = np.frombuffer(alone[_RAW], _TYPES[alone[_TYPE]]).reshape(shape)
    return alone[_NAME].decode(), array


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and values of a message's fields: whole numbers, or bytes."""
    fields = UnknownFieldSet(Empty.FromString(message))
    for place in range(len(fields)):
        yield fields[place].field_number, fields[place].data
