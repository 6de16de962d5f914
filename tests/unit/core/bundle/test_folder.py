"""A bundle opens whole and as hashed, or not at all; numbers that void the promise are refused."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle import manifest as bundles
from sottovoce.core.bundle.folder import Bundle, check_bound
from sottovoce.core.bundle.manifest import Manifest
from sottovoce.core.errors import BundleMismatch, DataLoss, NotFound, NotReady
from tests.support.tampering import change_array
from tests.support.tampering import change_manifest as tamper_manifest


@pytest.fixture
def folder(small_bundle_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(small_bundle_folder, tmp_path / "bundle"))


def change_manifest(folder: Path, **changes: Any) -> None:
    file = folder / "manifest.json"
    raw = json.loads(file.read_text()) | changes
    raw.pop("checksum", None)
    file.write_text(json.dumps(raw))


def test_a_manifest_survives_the_round_trip(folder: Path) -> None:
    data = (folder / "manifest.json").read_bytes()
    manifest = Manifest.from_json(data)
    assert manifest.to_json() == data
    assert bundles.bundle_id(data) == Bundle.open(folder).id
    assert len(bundles.bundle_id(data)) == 16


def test_no_flipped_bit_of_a_manifest_is_obeyed(folder: Path) -> None:
    data = (folder / "manifest.json").read_bytes()
    sound = Manifest.from_json(data)
    chance = random.Random(5)
    refused = 0
    for place in chance.sample(range(8 * len(data)), 2_000):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        try:
            assert Manifest.from_json(bytes(flipped)) == sound, place
        except (DataLoss, BundleMismatch):
            refused += 1
    assert refused > 1_900


def test_a_manifest_from_before_there_was_a_checksum_is_read(folder: Path) -> None:
    raw = json.loads((folder / "manifest.json").read_bytes())
    del raw["checksum"]
    assert Manifest.from_json(json.dumps(raw).encode()) == Bundle.open(folder).manifest
    raw["checkrum"] = ""  # what damage may leave of its name
    with pytest.raises(DataLoss, match=r"manifest\.json is damaged"):
        Manifest.from_json(json.dumps(raw).encode())


def test_arrays_are_read_only_maps(small_bundle: Bundle) -> None:
    for array in (
        small_bundle.space,
        small_bundle.tokens,
        small_bundle.members,
        small_bundle.rows,
        small_bundle.readings,
    ):
        assert not array.flags.writeable
        mapped = array
        while mapped.base is not None and not isinstance(mapped, np.memmap):
            mapped = mapped.base
        assert isinstance(mapped, np.memmap)


def test_words_and_classes(small_bundle: Bundle) -> None:
    assert small_bundle.words[small_bundle.word_ids["pond"]] == "pond"
    members = small_bundle.class_members("AUX+clitic")
    assert sorted(small_bundle.words[i] for i in members) == ["'d", "'ll", "'m", "'re", "'s", "'ve"]
    assert np.all(np.diff(small_bundle.class_members("*")) > 0)
    assert bundles.class_name("AUX", True) == "AUX+clitic"
    assert bundles.class_name("AUX", False) == "AUX"


@pytest.mark.parametrize("place", ["nowhere", "file/inside"])
def test_no_bundle_says_how_to_get_one(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotReady, match="sotto pull"):
        Bundle.open(tmp_path / place)


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "flipped": _flip,
    "zeroed": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "truncated": lambda file: os.truncate(file, file.stat().st_size - 1),
    "emptied": lambda file: os.truncate(file, 0),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_whichever_it_is(folder: Path, damage: str) -> None:
    for path in Bundle.open(folder).manifest.files:
        file = folder / path
        sound = file.read_bytes()
        DAMAGES[damage](file)
        with pytest.raises(DataLoss, match=re.escape(path)) as caught:
            Bundle.open(folder)
        assert caught.value.subject == path
        assert "sotto pull" in caught.value.fix
        file.write_bytes(sound)
    assert Bundle.open(folder)


def test_a_manifest_other_than_the_one_noted_is_refused(folder: Path) -> None:
    noted = Bundle.open(folder).id
    assert Bundle.open(folder, expected=noted).id == noted
    file = folder / "manifest.json"
    file.write_bytes(file.read_bytes().replace(b'"eta": 4.0', b'"eta": 8.0', 1))
    with pytest.raises(DataLoss, match=r"manifest\.json was altered"):
        Bundle.open(folder, expected=noted)


def test_a_bundle_knows_when_a_file_of_it_was_touched(folder: Path) -> None:
    for path in ("manifest.json", *Bundle.open(folder).manifest.files):
        opened = Bundle.open(folder)
        assert not opened.changed()
        os.utime(folder / path)
        assert opened.changed()
    (folder / "words.txt").unlink()
    assert opened.changed()


def test_another_backbone_is_refused(small_bundle_folder: Path) -> None:
    assert Bundle.open(small_bundle_folder, backbone="small")
    with pytest.raises(BundleMismatch, match="'small', not 'large'"):
        Bundle.open(small_bundle_folder, backbone="large")


def test_another_format_is_refused(folder: Path) -> None:
    for other in ("sottovoce.bundle.v1", "sottovoce.bundle.v9"):
        change_manifest(folder, format=other)
        with pytest.raises(BundleMismatch, match=re.escape(other)) as caught:
            Bundle.open(folder)
        assert "pull" in caught.value.fix


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff", b'{"words": 1}', b"[" * 10**5]
)
def test_an_unreadable_manifest_is_data_loss(folder: Path, data: bytes) -> None:
    (folder / "manifest.json").write_bytes(data)
    with pytest.raises(DataLoss, match="unreadable"):
        Bundle.open(folder)


def test_a_file_that_is_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "words.txt"
    (folder / "words.txt").rename(outside)
    (folder / "words.txt").symlink_to(outside)
    with pytest.raises(DataLoss, match=r"words\.txt is a link out"):
        Bundle.open(folder)


@pytest.mark.parametrize("path", ["names/names.json", "tagger/tagger.onnx", "more.txt"])
def test_a_file_that_nobody_hashed_is_refused(folder: Path, path: str) -> None:
    (folder / ".hidden").write_text("an editor's")
    (folder / "encoder").mkdir()
    (folder / "encoder" / "encoder.onnx").write_text("checked when it is opened")
    (folder / "manifest.sig").write_text("not the manifest's to list")
    assert Bundle.open(folder)
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text("{}")
    with pytest.raises(DataLoss, match=re.escape(path)) as caught:
        Bundle.open(folder)
    assert caught.value.subject == path


def test_an_array_of_another_shape_is_data_loss(folder: Path) -> None:
    change_manifest(folder, dimensions=9)
    with pytest.raises(DataLoss, match=r"rows\.npy has the wrong shape"):
        Bundle.open(folder)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (lambda good: good[:-1], "wrong shape"),
        (lambda good: good[:, None], "wrong shape"),
        (lambda good: good.astype(np.int64), "does not know"),
        (lambda good: np.where(np.arange(len(good)) == 3, 12, good).astype(np.uint8), "not know"),
    ],
)
def test_readings_that_are_none_are_data_loss(
    small_bundle: Bundle, folder: Path, array: Callable[[Any], Any], said: str
) -> None:
    np.save(folder / "readings.npy", array(np.array(small_bundle.readings)))
    with pytest.raises(DataLoss, match=rf"readings\.npy.*{said}"):
        Bundle(folder, small_bundle.manifest, "0")


def test_pickles_are_not_read(small_bundle_folder: Path, tmp_path: Path) -> None:
    manifest = Bundle.open(small_bundle_folder).manifest
    np.save(tmp_path / "rows.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(DataLoss, match=r"rows\.npy is not an array"):
        Bundle(tmp_path, manifest, "0")


def test_a_word_list_of_another_length_is_data_loss(
    small_bundle_folder: Path, folder: Path
) -> None:
    (folder / "words.txt").write_text("pond\n")
    damaged = Bundle(folder, Bundle.open(small_bundle_folder).manifest, "0")
    with pytest.raises(DataLoss, match=r"words\.txt"):
        _ = damaged.words


def test_unknown_levels_and_mechanisms_name_those_there_are(small_bundle: Bundle) -> None:
    manifest = small_bundle.manifest
    assert manifest.level("t2t.v1", "strong").eta == 4.0
    with pytest.raises(NotFound, match="use one of: balanced, light, strong") as caught:
        manifest.level("t2t.v1", "paranoid")
    assert caught.value.subject == "level"
    with pytest.raises(NotFound, match=r"pct2t\.v1, pct2t\.v2, t2t\.v1") as caught:
        manifest.level("t9t.v1", "strong")
    assert caught.value.subject == "mechanism"


Change = Callable[[NDArray[np.generic]], NDArray[np.generic]]


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

    tamper_manifest(folder, tamper)
    with pytest.raises(BundleMismatch, match="VERB lies outside"):
        check_bound(Bundle.open(folder))
