"""A manifest opens, or its error names the wrong field."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.bundle.folder import Bundle, check_bound
from sottovoce.core.bundle.levels import span
from sottovoce.core.bundle.manifest import Manifest
from sottovoce.core.errors import DataLoss, SottovoceError
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from tests.unit.core.bundle.conftest import FILE

Path_ = tuple[str | int, ...]


def _with(raw: dict[str, Any], at: Path_, value: Any) -> bytes:
    if not at:
        return json.dumps(value).encode()
    changed = copy.deepcopy(raw)
    inner: Any = changed
    for part in at[:-1]:
        inner = inner[part]
    inner[at[-1]] = value
    return json.dumps(changed).encode()


def _use(folder: Path, data: bytes) -> None:
    """Use a manifest as a device does."""
    manifest = Manifest.from_json(data)
    bundle = Bundle(folder, manifest, "0")
    check_bound(bundle)
    privatizer = Privatizer(bundle)
    for mechanism, levels in manifest.calibration.items():
        for level in (*list(levels)[:1], "attack:0.5", "replaced:0.5"):
            with suppress(SottovoceError):
                span(manifest.curve.get(mechanism, ()), level.partition(":")[0])
            with suppress(SottovoceError):
                privatizer.release("She'll sing by the river.", Setting(level, "t2t.v1"))


def test_the_manifest_that_is_altered_works(raw: dict[str, Any], small_bundle_folder: Path) -> None:
    _use(small_bundle_folder, json.dumps(raw).encode())


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (("words",), "many", "words is text, not a whole number"),
        (("words",), True, "words is true or false, not a whole number"),
        (("dimensions",), 8.0, "dimensions is a number, not a whole number"),
        (("classes", "NOUN", "offset"), 1 << 70, "classes.NOUN.offset is not a number from 0"),
        (("classes", "NOUN", "index"), "../outside.bin", "classes.NOUN.index is text, not null"),
        (("classes", "NOUN", "index"), "rows.npy", "classes.NOUN.index is text, not null"),
        (("classes", "NOUN", "ef"), 10**9, "classes.NOUN.ef"),
        (("classes",), {}, r"classes.\* is missing"),
        (("calibration", "t2t.v1", "strong", "eta"), 0, "calibration.t2t.v1.strong.eta"),
        (("calibration", "t2t.v1", "strong", "eta"), 10**400, "strong.eta is too large"),
        (("curve", "t2t.v1", 0, "classes"), {}, ""),
        (("files", "rows.npy", "sha256"), "0" * 63, "files.rows.npy.sha256 is not a SHA-256"),
        (("files", "rows.npy", "bytes"), -1, "files.rows.npy.bytes"),
        (("files", "rows.npy", "mode"), 1, "files.rows.npy.mode is not a known field"),
        (("clitics",), [""], r"clitics\[0\]"),
        (("clitics",), ["\ud800"], r"clitics\[0\] is not valid Unicode"),
        (("backbone",), {"name": "small"}, "backbone.sha256 is missing"),
    ],
)
def test_the_error_names_the_field(raw: dict[str, Any], at: Path_, value: Any, said: str) -> None:
    if not said:
        assert Manifest.from_json(_with(raw, at, value))  # as it was
        return
    with pytest.raises(DataLoss, match=said) as caught:
        Manifest.from_json(_with(raw, at, value))
    assert caught.value.subject == "manifest.json"
    assert "sotto pull" in caught.value.fix


@pytest.mark.parametrize(
    "path",
    [
        *("../outside.bin", "/etc/passwd", "", ".", "..", "./rows.npy", "a/../b", "a//b", "a/"),
        *(
            ".hidden",
            "a/.hidden",
            "a\\b",
            "a\0b",
            "a\nb",
            "\u202ea",
            "~/x",
            "x" * 300,
            "a/" * 9 + "b",
        ),
        *("manifest.json", "manifest.sig", "Manifest.json", "ROWS.npy", "rows.npy/x", "cards"),
        *("encoder/x", "encoder"),
    ],
)
def test_a_path_that_is_no_file_of_its_own_is_refused(raw: dict[str, Any], path: str) -> None:
    for listed in ("files", "optional"):
        if listed == "optional" and path == "encoder/x":
            continue
        with pytest.raises(DataLoss, match=r"manifest\.json"):
            Manifest.from_json(_with(raw, (listed, path), FILE))


def test_a_path_stands_in_one_list_alone(raw: dict[str, Any]) -> None:
    with pytest.raises(DataLoss, match=r"rows\.npy"):
        Manifest.from_json(_with(raw, ("optional", "rows.npy"), FILE))


@pytest.mark.parametrize("name", ["rows.npy", "members.npy", "words.txt", "tokenizer.json"])
def test_what_every_bundle_has_must_be_listed(raw: dict[str, Any], name: str) -> None:
    changed = copy.deepcopy(raw)
    del changed["files"][name]
    with pytest.raises(DataLoss, match=f"files.{name} is missing"):
        Manifest.from_json(json.dumps(changed).encode())


@pytest.mark.parametrize("key", ["words", "tagset", "calibration", "files", "clitics", "curve"])
def test_a_field_that_is_missing_is_named(raw: dict[str, Any], key: str) -> None:
    changed = {name: value for name, value in raw.items() if name != key}
    with pytest.raises(DataLoss, match=f"{key} is missing"):
        Manifest.from_json(json.dumps(changed).encode())


def test_points_of_a_curve_have_the_same_classes(raw: dict[str, Any]) -> None:
    of_class = {"NOUN": {"eta": 4.0, "replaced": 0.5, "map_attack": 0.5, "blind": 0.1}}
    with pytest.raises(DataLoss, match=r"curve.t2t.v1 has points of different classes"):
        Manifest.from_json(_with(raw, ("curve", "t2t.v1", 0, "classes"), of_class))


@pytest.mark.parametrize(
    "text",
    [
        '{"format": "sottovoce.bundle.v2", "words": NaN}',
        '{"format": "sottovoce.bundle.v2", "words": -Infinity}',
        '{"format": "sottovoce.bundle.v2", "words": 1, "words": 2}',
        '{"format": "sottovoce.bundle.v2", "words": ' + "[" * 40 + "]" * 40 + "}",
        '{"format": "sottovoce.bundle.v2", "words": ' + '{"a":' * 900 + "1" + "}" * 901,
        '{"format": "sottovoce.bundle.v2", "words": ' + "9" * 5_000 + "}",
        '{"format": 2}',
        '{"format": "' + "x" * (9 << 20) + '"}',
        "[" * 200_000,
        "",
    ],
)
def test_what_is_no_plain_json_is_refused(text: str) -> None:
    with pytest.raises(DataLoss, match=r"manifest\.json"):
        Manifest.from_json(text.encode())


def test_a_name_of_the_providers_fills_no_error(raw: dict[str, Any]) -> None:
    for name in ("x" * 10_000, "\x1b[2J", "a\nb"):
        with pytest.raises(DataLoss) as caught:
            Manifest.from_json(_with(raw, ("classes", name), 1))
        assert len(caught.value.problem) < 300
        assert caught.value.problem.isprintable()
