"""An intact bundle whose numbers would void the promise is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle, check_bound
from sottovoce.core.errors import BundleMismatch
from tests.support.tampering import change_array, change_manifest

Change = Callable[[NDArray[np.generic]], NDArray[np.generic]]


@pytest.fixture
def folder(small_bundle_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may tamper with."""
    return Path(shutil.copytree(small_bundle_folder, tmp_path / "bundle"))


def _with(value: float, place: tuple[int, int]) -> Change:
    def change(rows: NDArray[np.generic]) -> NDArray[np.generic]:
        rows[place] = value
        return rows

    return change


def test_sound_bundles_pass(small_bundle: Bundle, bundle: Bundle) -> None:
    check_bound(small_bundle)
    check_bound(bundle)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rows: rows * np.float32(1_000), "unit sphere"),
        (lambda rows: rows * np.float32(1.01), "unit sphere"),
        (lambda rows: rows * np.float32(0), "unit sphere"),
        (_with(np.nan, (7, 3)), "unit sphere"),
        (_with(np.inf, (-1, 0)), "unit sphere"),
        (lambda rows: rows.astype(np.float64), "float32"),
    ],
)
def test_rows_off_the_unit_sphere_are_refused(folder: Path, change: Change, told: str) -> None:
    check_bound(Bundle.open(folder))
    change_array(folder, "rows.npy", change)
    with pytest.raises(BundleMismatch, match=told) as caught:
        check_bound(Bundle.open(folder))
    assert caught.value.subject == "bundle"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (-1, -1)])
def test_tokens_without_a_place_are_refused(
    folder: Path, value: float, place: tuple[int, int]
) -> None:
    change_array(folder, "tokens.npy", _with(value, place))
    with pytest.raises(BundleMismatch, match="token"):
        check_bound(Bundle.open(folder))


@pytest.mark.parametrize(
    ("member", "change"),
    [
        ("first", lambda id: id + 10_000),
        ("first", lambda id: -1 - id),
        ("first", lambda id: id + 1),
        ("last", lambda id: 0),
    ],
)
def test_a_class_that_is_no_list_of_words_is_refused(
    folder: Path, member: str, change: Callable[[int], int]
) -> None:
    word_class = Bundle.open(folder).manifest.classes["VERB"]
    place = word_class.offset + (0 if member == "first" else word_class.words - 1)

    def tamper(members: NDArray[np.generic]) -> NDArray[np.generic]:
        members[place] = change(int(members[place]))
        return members

    change_array(folder, "members.npy", tamper)
    with pytest.raises(BundleMismatch, match="the class VERB"):
        check_bound(Bundle.open(folder))


def test_a_class_with_other_rows_than_its_words_is_refused(folder: Path) -> None:
    offset = Bundle.open(folder).manifest.classes["VERB"].offset

    def swap(rows: NDArray[np.generic]) -> NDArray[np.generic]:
        rows[[offset, offset + 1]] = rows[[offset + 1, offset]]
        return rows

    change_array(folder, "rows.npy", swap)
    with pytest.raises(BundleMismatch, match="VERB has words in other places"):
        check_bound(Bundle.open(folder))


@pytest.mark.parametrize("changes", [{"offset": 10_000}, {"words": 10_000}])
def test_a_class_outside_the_members_is_refused(folder: Path, changes: dict[str, int]) -> None:
    def tamper(manifest: dict[str, dict[str, dict[str, int]]]) -> None:
        manifest["classes"]["VERB"] |= changes

    change_manifest(folder, tamper)
    with pytest.raises(BundleMismatch, match="VERB lies outside"):
        check_bound(Bundle.open(folder))
