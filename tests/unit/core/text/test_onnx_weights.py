"""What an ONNX file holds is read without a runtime for it."""

import numpy as np
import pytest

from sottovoce.core.text.onnx_models import weights
from tests.support.paths import MODELS

MODEL = (MODELS / "names" / "names.onnx").read_bytes()


def test_reads_the_constants_of_the_shipped_network() -> None:
    found = weights(MODEL)
    assert found["table.whole"].shape == (20_992, 24)
    assert found["table.whole"].dtype == np.int8
    assert found["mix.scale"].dtype == np.float32
    assert np.abs(found["table.whole"]).max() == 127  # so the builder rounds
    assert found["pad2"].tolist() == [3, 0, 3, 0]


def packed(number: int, data: bytes) -> bytes:
    """A field of bytes, shorter than 128."""
    return bytes([number << 3 | 2, len(data)]) + data


def test_reads_a_file_written_by_hand() -> None:
    tensor = (
        bytes([1 << 3, 2, 1 << 3, 1, 2 << 3, 1]) + packed(8, b"w") + packed(9, b"\0\0\x80?" * 2)
    )
    model = bytes([1 << 3, 9]) + packed(7, packed(1, b"") + packed(5, tensor))
    (name, array), *others = weights(model).items()
    assert (name, array.tolist(), others) == ("w", [[1.0], [1.0]], [])


@pytest.mark.parametrize(
    "damaged",
    [
        MODEL[: len(MODEL) // 2],
        packed(7, packed(5, packed(8, b"w"))),
        packed(7, packed(5, bytes([2 << 3, 99]) + packed(8, b"w") + packed(9, b"0000"))),
        packed(7, packed(5, bytes([1 << 3, 3, 2 << 3, 1]) + packed(8, b"w") + packed(9, b"0000"))),
        bytes([7 << 3, 1]),
    ],
)
def test_refuses_what_is_no_such_file(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an ONNX|reshape|cut short"):
        weights(damaged)
