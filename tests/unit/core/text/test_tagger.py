"""The shipped tagger: right, sure when it may be, local, and the same in every process."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady
from sottovoce.core.text import tagger as module
from sottovoce.core.text.tagger import (
    FEATURES,
    HASHES,
    UPOS,
    FeatureSpec,
    OnnxTagger,
    form_features,
)
from tests.support.paths import MODELS
from tests.support.sentences import sentences
from tests.support.shared_data import shared_data

SHIPPED = MODELS / "tagger"
TEXT = (
    "My sister, who lives near the old harbour, has not answered since Monday; "
    "should I call her doctor or would you rather wait until she writes?"
)
WORDS = TEXT.replace(",", " ,").replace(";", " ;").replace("?", " ?").split()


@pytest.fixture(scope="module")
def tagger() -> OnnxTagger:
    return OnnxTagger.load(SHIPPED)


def names(tagger: OnnxTagger, words: list[str]) -> list[str]:
    return [UPOS[tag] for tag in tagger.tag(words).ids]


def gold(name: str) -> list[tuple[list[str], list[str]]]:
    """Words and tags of each sentence of a treebank."""
    sentences: list[tuple[list[str], list[str]]] = [([], [])]
    with gzip.open(shared_data(name) / name, "rt", encoding="utf-8") as file:
        for line in file:
            fields = line.split("\t")
            if fields[0].isdigit():
                sentences[-1][0].append(fields[1])
                sentences[-1][1].append(fields[3])
            elif line == "\n":
                sentences.append(([], []))
    return [sentence for sentence in sentences if sentence[0]]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("She gave the nurse a letter .", "PRON VERB DET NOUN DET NOUN PUNCT"),
        ("We can not go to Berlin", "PRON AUX PART VERB ADP PROPN"),
        ("the run was long but they run fast", "DET NOUN AUX ADJ CCONJ PRON VERB ADV"),
    ],
)
def test_tags_by_context(tagger: OnnxTagger, sentence: str, expected: str) -> None:
    assert names(tagger, sentence.split()) == expected.split()


def test_is_right_about_sentences_of_our_own(tagger: OnnxTagger) -> None:
    """439 words, .975 and .964 right: a tagger that gets .95 and .93 passes once in a hundred."""
    right, typed = [], []
    for words, tags in sentences():
        right += [found == tag for found, tag in zip(names(tagger, words), tags, strict=True)]
        bare = [word.lower() for word in words[:-1]]  # without capitals and full stop
        typed += [found == tag for found, tag in zip(names(tagger, bare), tags, strict=False)]
    assert len(right) > 400
    assert np.mean(right) > 0.95
    assert np.mean(typed) > 0.93


def test_is_right_about_words_it_was_not_trained_on(tagger: OnnxTagger) -> None:
    right = [
        found == wanted
        for words, tags in gold("ud_ewt/test.conllu.gz")
        for found, wanted in zip(names(tagger, words), tags, strict=True)
    ]
    assert np.mean(right) > 0.945


def test_confidence_is_the_share_of_right_tags(tagger: OnnxTagger) -> None:
    sentences = gold("ud_ewt/test.conllu.gz")
    tags = tagger.tag([word for words, _ in sentences for word in words])
    wanted = [UPOS.index(tag) for _, found in sentences for tag in found]
    right = tags.ids == np.array(wanted)
    for low, high in ((0.3, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
        chosen = (tags.confidence >= low) & (tags.confidence < high)
        assert chosen.sum() > 100
        # 4 standard errors and five points for what one temperature cannot mend.
        margin = 0.05 + 4 * 0.5 / chosen.sum() ** 0.5
        assert abs(right[chosen].mean() - tags.confidence[chosen].mean()) < margin


def test_windows_leave_no_trace(tagger: OnnxTagger, monkeypatch: pytest.MonkeyPatch) -> None:
    words = WORDS * 40
    monkeypatch.setattr(module, "WINDOW", len(words))
    whole = tagger.tag(words)
    for window in (1, 7, 250):
        monkeypatch.setattr(module, "WINDOW", window)
        parts = tagger.tag(words)
        np.testing.assert_array_equal(parts.ids, whole.ids)
        np.testing.assert_allclose(parts.confidence, whole.confidence, atol=1e-5)


def test_a_tag_depends_on_four_words_either_side_and_no_more(tagger: OnnxTagger) -> None:
    before = tagger.tag(WORDS).confidence
    middle = len(WORDS) // 2
    changed = WORDS.copy()
    changed[middle] = "Xylophone!"
    moved = np.flatnonzero(~np.isclose(tagger.tag(changed).confidence, before, atol=1e-5))
    assert len(moved) > 3
    assert np.abs(moved - middle).max() <= 4


@given(st.lists(st.text(st.characters(exclude_categories=()), min_size=1), max_size=20))
def test_takes_any_words(tagger: OnnxTagger, words: list[str]) -> None:
    tags = tagger.tag(words)
    assert tags.ids.dtype == np.uint8
    assert tags.confidence.dtype == np.float32
    assert tags.ids.shape == tags.confidence.shape == (len(words),)
    assert ((tags.ids < len(UPOS)) & (tags.confidence > 0) & (tags.confidence <= 1)).all()


def test_features_say_what_they_are() -> None:
    seen = dict(zip(FEATURES, form_features("O’Neill42"), strict=True))
    assert seen == {
        "norm": "o'neill00",
        "shape": "X’Xxxx00",
        "prefix1": "o",
        "prefix3": "o'n",
        "suffix1": "0",
        "suffix2": "00",
        "suffix3": "l00",
        "suffix4": "ll00",
    }


def test_long_words_cost_no_more_than_short_ones() -> None:
    assert max(map(len, form_features("a1" * 500_000))) <= 64


@given(word=st.text("abcXYZ", min_size=1, max_size=70))
def test_the_short_cut_for_plain_words_sees_the_same(word: str) -> None:
    # An apostrophe or a digit at the end sends a word the long way.
    word = word[:60]
    plain, long = form_features(word), form_features(word + "\N{RIGHT SINGLE QUOTATION MARK}")
    assert plain[0] == long[0][:-1]
    assert plain[1] == long[1][:-1]
    assert (plain[2], plain[3]) == (long[2], long[0][:-1][:3])
    assert plain[4:] == tuple(plain[0][-n:] for n in (1, 2, 3, 4))


def test_hashes_are_the_same_in_every_process() -> None:
    program = (
        "from sottovoce.core.text.tagger import FeatureSpec;"
        "print(FeatureSpec((97,) * 8, 3).rows_of(['Hello', 'there']).tolist())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{FeatureSpec((97,) * 8, 3).rows_of(['Hello', 'there']).tolist()}\n"}


def test_rows_stay_within_their_feature() -> None:
    spec = FeatureSpec((5, 6, 7, 8, 9, 10, 11, 12), seed=1)
    rows = spec.rows_of(WORDS).reshape(-1, len(FEATURES), HASHES)
    ends = np.cumsum(spec.rows)
    assert (rows >= (ends - spec.rows)[:, None]).all()
    assert (rows < ends[:, None]).all()
    assert len(np.unique(FeatureSpec(spec.rows, seed=2).rows_of(WORDS) == spec.rows_of(WORDS))) == 2


def test_fits_a_small_device() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.glob("tagger.*")) < 2_000_000


def copy(folder: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, folder / "tagger"))


def test_a_missing_tagger_names_the_command_that_fetches_one(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="sotto pull"):
        OnnxTagger.load(tmp_path)


def test_a_damaged_tagger_is_refused(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    model = bytearray((folder / "tagger.onnx").read_bytes())
    model[len(model) // 2] ^= 1
    (folder / "tagger.onnx").write_bytes(model)
    with pytest.raises(DataLoss, match="SHA-256"):
        OnnxTagger.load(folder)


@pytest.mark.parametrize("change", [{"format": "tagger.v9"}, {"features": ["norm"]}, {"hashes": 3}])
def test_another_format_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    folder = copy(tmp_path)
    description = folder / "tagger.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | change))
    with pytest.raises(BundleMismatch, match="same version"):
        OnnxTagger.load(folder)
