"""Reads the weights out of an ONNX file without a runtime.

Importing onnxruntime takes 19 MB and a twentieth of a second. NumPy is enough for a network of five
matrix products. The file can still be opened by any runtime.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.text.onnx_file import fields

__all__ = ["weights"]

# Numbers of fields and types in onnx.proto; whatever else a file holds is skipped.
_GRAPH: Final = 7
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
            if number == _GRAPH
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
