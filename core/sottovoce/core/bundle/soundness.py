"""Is what a bundle says possible at all? Asked of every bundle that a device opens.

Why it is here: a signature says who made a bundle, a hash that it is whole; neither says that the
bound holds with it. The noise is as loud as eta says only beside rows of length 1, and a class
protects only those who are in it. So a device looks for itself, whoever signed. What takes longer,
levels above all, is asked once, when a bundle is pulled: `sottovoce.core.privacy.inspection`.
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
"""Rows looked at together: a few hundred kB, whatever the bundle."""

_OFF_UNIT: Final = 1e-3
"""What the square of a row's length may be off 1; float32 of the builder's is off by 1e-6."""


def check(bundle: Bundle) -> None:
    """Nothing, if rows, tokens and classes can mean what the mechanisms take them for.

    Every row has length 1; no number is infinite or none; each class is a list of different words,
    which has in its rows those of the same words; each network is made of what a device runs.

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
    """Nothing, if the network in ``file`` is made of what a device runs, see `onnx_file`.

    Raises:
        BundleMismatch: it is not.
    """
    try:
        onnx_file.check_file(file)
    except (OSError, ValueError) as error:
        raise unsound(f"of the network {file.name}, {error}") from None


def unsound(problem: str) -> BundleMismatch:
    """The error of a bundle that is whole, and that a device must not use all the same."""
    return BundleMismatch(
        f"the bundle cannot be trusted: {problem}",
        fix=Remedy.REPLACE_BUNDLE,
        subject="bundle",
    )


def _check_tokens(bundle: Bundle) -> None:
    # Read, not mapped: pages once mapped would stay in the daemon's memory.
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
