"""Checks that a bundle's data can keep its privacy bound, when a device opens it.

A signature shows who made a bundle, and a hash that it is intact. Neither shows that the privacy
bound holds with it. The noise is as strong as eta says only if the rows have length 1, and a class
protects only its members. So a device checks these itself, whatever the signature. Slower checks,
above all of levels, run once, when a bundle is pulled: `sottovoce.core.privacy.inspection`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import WordClass
from sottovoce.core.errors import BundleMismatch, Remedy
from sottovoce.core.text import onnx_file

__all__ = ["check", "check_network", "unsound"]

_AT_ONCE: Final = 4_096
"""Rows checked together: a few hundred kB, whatever the bundle."""

_OFF_UNIT: Final = 1e-3
"""The tolerance of a row's squared length around 1; the builder's float32 is off by 1e-6."""


def check(bundle: Bundle) -> None:
    """Check that rows, tokens and classes are valid for the mechanisms.

    Every row has length 1, and no number is infinite or NaN. Each class is a list of different
    words, and its rows are the rows of the same words. Each network uses only the operators that a
    device runs.

    Raises:
        BundleMismatch: one of these fails; the bundle must not be used.
    """
    for name, array in (("rows.npy", bundle.rows), ("tokens.npy", bundle.tokens)):
        if array.dtype != np.float32:
            raise unsound(f"{name} holds {array.dtype}, not float32")
    for start in range(0, len(bundle.rows), _AT_ONCE):
        rows = np.asarray(bundle.rows[start : start + _AT_ONCE], np.float64)
        lengths = np.einsum("ij,ij->i", rows, rows)
        # Written so that NaN, which is never close to anything, is refused too.
        if not (np.abs(lengths - 1) <= _OFF_UNIT).all():
            raise unsound("a word of the privacy space does not lie on the unit sphere")
    _check_tokens(bundle)
    for name, word_class in bundle.manifest.classes.items():
        _check_class(bundle, name, word_class)
    for path in bundle.manifest.files:
        if path.endswith(".onnx"):
            check_network(bundle.folder / path)


def check_network(file: Path) -> None:
    """Check that the network in ``file`` uses only what a device runs, see `onnx_file`.

    Raises:
        BundleMismatch: it is not.
    """
    try:
        onnx_file.check_file(file)
    except (OSError, ValueError) as error:
        raise unsound(f"of the network {file.name}, {error}") from None


def unsound(problem: str) -> BundleMismatch:
    """Return the error of a bundle that is intact, but that a device must not use."""
    return BundleMismatch(
        f"the bundle cannot be trusted: {problem}",
        fix=Remedy.REPLACE_BUNDLE,
        subject="bundle",
    )


def _check_tokens(bundle: Bundle) -> None:
    # Read, not mapped, because mapped pages would stay in the daemon's memory.
    columns = bundle.tokens.shape[1]
    with (bundle.folder / "tokens.npy").open("rb") as file:
        file.seek(bundle.tokens.offset)  # type: ignore[attr-defined]
        while len(numbers := np.fromfile(file, np.float32, _AT_ONCE * columns)):
            if not np.isfinite(numbers).all():
                raise unsound("a token of the privacy space has no place in it")


def _check_class(bundle: Bundle, name: str, found: WordClass) -> None:
    if not (found.offset >= 0 and 1 <= found.words <= len(bundle.rows) - found.offset):
        raise unsound(f"the class {name} lies outside the list of members")
    members: NDArray[np.int32] = bundle.class_members(name)
    if members.min() < 0 or members.max() >= bundle.manifest.words or (np.diff(members) <= 0).any():
        raise unsound(f"the class {name} is no ascending list of words")
    rows = bundle.class_rows(name)
    for start in range(0, len(members), _AT_ONCE):
        chunk = slice(start, start + _AT_ONCE)
        if not np.array_equal(rows[chunk], bundle.space[members[chunk]]):
            raise unsound(f"the class {name} has words in other places than the list of all words")
