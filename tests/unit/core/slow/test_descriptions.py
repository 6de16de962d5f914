"""JSON beside a network opens, or our error refuses it."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from sottovoce.core.bundle.adapter import FORMAT, LocalAdapter
from sottovoce.core.bundle.encoder import Encoder
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.tokenizer import open_tokenizer
from sottovoce.core.errors import SottovoceError
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.core.text.names import NameFinder
from sottovoce.core.text.tagger import OnnxTagger
from tests.support.paths import MODELS

At = tuple[str | int, ...]
WRONG: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**30, 10**400, float("nan"), "", "x", "\ud800", [], {}),
    *([None], [1], ["x"], {"x": None}, {"x": 1}, {"x": {"x": {}}}),
)
WORDS = ["Anna", "Marsh", "saw", "the", "naïve", "lake", "12", "."]
LOOKS = np.full(len(WORDS), 20, np.uint8)
ENCODER = {
    "format": "encoder.v1",
    "backbone_sha256": "0" * 64,
    "width": 8,
    "tokens": 9,
    "positions": 16,
    "longest": 12,
    "before": [1],
    "after": [2],
    "layers": [["q", 8, 8], ["v", 8, 8]],
    "prefix": 16,
}
ADAPTER = {"format": FORMAT, "labels": '["a", "b"]', "layers": '["q"]', "backbone_sha256": "0" * 64}
TENSORS = {
    **{name: np.zeros((0, 8), np.float32) for name in ("prompt", "prefix", "lora")},
    "weight": np.zeros((2, 8), np.float32),
    "bias": np.zeros(2, np.float32),
}


def _tagger(folder: Path, data: str, _: Bundle) -> None:
    (folder / "tagger.json").write_text(data)
    OnnxTagger.load(folder).tag(WORDS)


def _names(folder: Path, data: str, _: Bundle) -> None:
    (folder / "names.json").write_text(data)
    NameFinder.load(folder).find(WORDS, LOOKS)


def _denoiser(folder: Path, data: str, bundle: Bundle) -> None:
    (folder / "denoiser.json").write_text(data)
    Denoiser.load(folder, bundle).local(bundle.tokenizer.ids("a lake"))


def _encoder(folder: Path, data: str, bundle: Bundle) -> None:
    (folder / "encoder.json").write_text(data)
    Encoder.open(folder, bundle.tokenizer)


def _adapter(folder: Path, data: str, _: Bundle) -> None:
    (folder / "adapter").write_bytes(save(TENSORS, {"sottovoce": data}))
    LocalAdapter.read(folder / "adapter")


def _tokenizer(folder: Path, data: str, _: Bundle) -> None:
    (folder / "tokenizer.json").write_text(data)
    tokenizer = open_tokenizer(folder / "tokenizer.json")
    tokenizer.ids("The naïve lake " + "x" * 2_000)


Use = Callable[[Path, str, Bundle], None]
KINDS: dict[str, Use] = {
    "tagger": _tagger,
    "names": _names,
    "denoiser": _denoiser,
    "encoder": _encoder,
    "adapter": _adapter,
    "tokenizer": _tokenizer,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(kind: str, small_bundle_folder: Path, tmp_path: Path) -> Path:
    if (MODELS / kind).is_dir():
        shutil.copytree(MODELS / kind, tmp_path / kind)
    else:
        shutil.copytree(small_bundle_folder, tmp_path / kind)
    return tmp_path / kind


@pytest.fixture
def raw(kind: str, folder: Path) -> dict[str, Any]:
    made = {"encoder": ENCODER, "adapter": ADAPTER}
    found: dict[str, Any] = made.get(kind) or json.loads((folder / f"{kind}.json").read_bytes())
    for aside in ("recipe", "levels"):  # read by nobody
        found.pop(aside, None)
    return found


def _fields(value: Any, at: At = ()) -> Iterator[At]:
    yield at
    if isinstance(value, dict):
        for name in value:
            yield from _fields(value[name], (*at, name))
    elif isinstance(value, list):
        for place in range(min(1, len(value))):
            yield from _fields(value[place], (*at, place))


def _with(raw: dict[str, Any], at: At, value: Any) -> str:
    if not at:
        return json.dumps(value)
    changed = copy.deepcopy(raw)
    inner: Any = changed
    for part in at[:-1]:
        inner = inner[part]
    inner[at[-1]] = value
    return json.dumps(changed)


def test_as_it_is_it_works(kind: str, folder: Path, raw: dict[str, Any], bundle: Bundle) -> None:
    if kind == "encoder":  # which has no network here
        with pytest.raises(SottovoceError, match=r"table\.npy"):
            KINDS[kind](folder, json.dumps(raw), bundle)
    else:
        KINDS[kind](folder, json.dumps(raw), bundle)


def test_each_field_of_each_wrong_type_works_or_is_refused(
    kind: str, folder: Path, raw: dict[str, Any], bundle: Bundle
) -> None:
    refused = 0
    for at in _fields(raw):
        for value in WRONG:
            try:
                KINDS[kind](folder, _with(raw, at, value), bundle)
            except SottovoceError:
                refused += 1
    assert refused > 50


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_anywhere_works_or_is_refused(
    kind: str, folder: Path, raw: dict[str, Any], bundle: Bundle, data: st.DataObject
) -> None:
    at = data.draw(st.sampled_from([*_fields(raw)]))
    numbers = st.integers() | st.floats() | st.sampled_from([10**400, 1 << 63])
    anything = st.recursive(
        st.none() | st.booleans() | numbers | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=6,
    )
    with suppress(SottovoceError):
        KINDS[kind](folder, _with(raw, at, data.draw(anything)), bundle)


@pytest.mark.parametrize(
    "text", ["", "[", "null", "{}", "[" * 200_000, '{"format": "x", "format": "y"}']
)
def test_what_is_no_description_is_refused(
    kind: str, folder: Path, bundle: Bundle, text: str
) -> None:
    with pytest.raises(SottovoceError):
        KINDS[kind](folder, text, bundle)


def test_lists_within_an_adapter_are_checked_too(tmp_path: Path, bundle: Bundle) -> None:
    for wrong in ("", "3", "null", "[1]", '["a"', '["a", "a"]', "[" * 100_000, '["\\ud800", "b"]'):
        for name in ("labels", "layers"):
            if (name, wrong) == ("layers", '["a", "a"]'):
                continue
            with pytest.raises(SottovoceError):
                _adapter(tmp_path, json.dumps(ADAPTER | {name: wrong}), bundle)


def test_a_tagger_of_other_numbers_than_its_tags_is_refused(tmp_path: Path) -> None:
    """Its network swapped for the name finder's, with a hash that fits."""
    shutil.copytree(MODELS / "tagger", tmp_path / "tagger")
    network = (MODELS / "names" / "names.onnx").read_bytes()
    (tmp_path / "tagger" / "tagger.onnx").write_bytes(network)
    told = json.loads((tmp_path / "tagger" / "tagger.json").read_bytes())
    told["sha256"] = hashlib.sha256(network).hexdigest()
    (tmp_path / "tagger" / "tagger.json").write_text(json.dumps(told))
    with pytest.raises(SottovoceError):
        OnnxTagger.load(tmp_path / "tagger").tag(WORDS)
