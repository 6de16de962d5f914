"""The shipped name finder: finds names, and sees of a word's neighbours nothing but their looks."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text import names as module
from sottovoce.core.text.names import KINDS, LISTED, NameFinder, NameNetwork
from sottovoce.core.text.onnx_models import session, weights
from sottovoce.core.text.tagger import FEATURES, HASHES
from sottovoce.core.text.word_classes import FIRST_WORD, LOOKS, READINGS, look_up, looks
from sottovoce.core.text.words import Kind, Word, split
from tests.support.paths import MODELS
from tests.support.shared_data import shared_data

SHIPPED = MODELS / "names"
TEXT = (
    "Dear Ms. Rose Young, my neighbour Rich from Little Rock works at the Bank of America. "
    "He may call you on 555-0100; will you be in New York, or shall I ask Lily? "
)


@pytest.fixture(scope="module")
def finder() -> NameFinder:
    return NameFinder.load(SHIPPED)


class Reader:
    """Words as the device cuts them, with their readings in the real bundle."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._vectors = Vectors(bundle)

    def __call__(self, text: str) -> tuple[list[str], NDArray[np.uint8]]:
        words = split(text, self._bundle.manifest.clitics)
        return [word.text for word in words], looks(words, self.readings(words))

    def readings(self, words: list[Word]) -> NDArray[np.uint8]:
        ids = self._vectors.lookup([word.text for word in words])[1]
        return look_up(self._bundle.readings, ids)


@pytest.fixture(scope="module")
def read(bundle: Bundle) -> Reader:
    return Reader(bundle)


def named(finder: NameFinder, read: Reader, text: str) -> dict[str, str]:
    words, seen = read(text)
    kinds = finder.find(words, seen).kinds
    return {word: KINDS[kind] for word, kind in zip(words, kinds, strict=True) if kind}


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("Rich said that he would come.", "Rich", "PERSON"),
        ("I talked to Rose Young about it.", "Young", "PERSON"),
        ("We flew from Little Rock to Chicago.", "Rock", "PLACE"),
        ("My account at the Bank of America was closed.", "Bank", "ORGANISATION"),
    ],
)
def test_finds_names_that_are_ordinary_words(
    finder: NameFinder, read: Reader, text: str, name: str, kind: str
) -> None:
    assert named(finder, read, text)[name] == kind


@pytest.mark.parametrize(
    "text",
    [
        "They may be rich, but they were young and will grow a rose.",
        "The rock in the bank of the river is new.",
        "Young people often will not say so, and a little may be enough.",
        "Please send me the invoice, and let me know when the new lamp comes.",
    ],
)
def test_leaves_ordinary_words_alone(finder: NameFinder, read: Reader, text: str) -> None:
    assert named(finder, read, text) == {}


def test_ordinary_words_may_be_exchanged_for_their_like_and_nothing_else_changes(
    finder: NameFinder, read: Reader, bundle: Bundle
) -> None:
    """Not by a single bit: any word, for any of the same reading in the same case."""
    random = np.random.default_rng(1)
    words = split(TEXT * 12, bundle.manifest.clitics)  # several windows
    readings = read.readings(words)
    before = finder.find([word.text for word in words], looks(words, readings))
    exchanged = 0
    for place in random.permutation(len(words))[:60].tolist():
        word, reading = words[place], readings[place]
        if word.kind is not Kind.WORD or word.clitic or reading == len(READINGS):
            continue
        other = bundle.words[int(random.choice(np.flatnonzero(bundle.readings == reading)))]
        for case in (str.lower, str.capitalize, str.upper):
            if case(word.text) == word.text:
                other = case(other)
                break
        changed = [*words]
        changed[place] = word._replace(text=other)
        seen = looks(changed, readings)
        if (seen != looks(words, readings)).any():
            continue  # one letter in capitals looks capitalised
        after = finder.find([each.text for each in changed], seen)
        rest = np.arange(len(words)) != place
        np.testing.assert_array_equal(before.kinds[rest], after.kinds[rest])
        np.testing.assert_array_equal(before.probability[rest], after.probability[rest])
        exchanged += 1
    assert exchanged > 30


@pytest.fixture(scope="module")
def listing(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> NameFinder:
    """The finder as a bundle brings it, which knows the words that the bundle lists."""
    folder = copy(tmp_path_factory.mktemp("listing"))
    np.save(folder / LISTED, NameFinder.load(folder).of_listed(bundle.words))
    return NameFinder.load(folder, words=len(bundle.words))


def ids_but_case(bundle: Bundle, words: list[str]) -> NDArray[np.int32]:
    return np.array([bundle.word_ids.get(word.lower(), -1) for word in words], np.int32)


def test_what_is_known_of_listed_words_changes_nothing(
    finder: NameFinder, listing: NameFinder, read: Reader, bundle: Bundle
) -> None:
    text = "Ms. Zorblax O'Hara said “nothing” to IBM, the McDonald's in Rome, and 12 CAFÉS. " + TEXT
    words, seen = read(text * 20)  # two windows
    ids = ids_but_case(bundle, words)
    assert len(words) > module.WINDOW
    assert 0.05 < np.mean(ids < 0) < 0.5
    found, expected = listing.find(words, seen, ids), finder.find(words, seen)
    np.testing.assert_array_equal(found.kinds, expected.kinds)
    np.testing.assert_allclose(found.probability, expected.probability, atol=1e-5)


def test_listed_words_may_be_exchanged_as_well(
    listing: NameFinder, read: Reader, bundle: Bundle
) -> None:
    """Not by a single bit, as with features that are hashed anew; "rich" and "qzx" look different
    and are not exchanged."""
    words, seen = read(TEXT * 12)
    before = listing.find(words, seen, ids_but_case(bundle, words)).probability
    for place, other in ((words.index("Rich"), "Kind"), (words.index("neighbour"), "lamp")):
        changed = [*words]
        changed[place] = other
        after = listing.find(changed, seen, ids_but_case(bundle, changed)).probability
        rest = np.arange(len(words)) != place
        np.testing.assert_array_equal(before[rest], after[rest])


@pytest.mark.parametrize(
    "array", [np.zeros((5, 64)), np.zeros((6, 64), np.float32), np.zeros(5, np.float32), None]
)
def test_what_is_no_list_of_such_words_is_refused(
    tmp_path: Path, array: NDArray[np.float32] | None
) -> None:
    folder = copy(tmp_path)
    if array is None:
        (folder / LISTED).write_bytes(b"no array")
    else:
        np.save(folder / LISTED, array)
    assert NameFinder.load(folder).reach > 0  # who is told of no words reads none
    with pytest.raises(DataLoss, match="listed"):
        NameFinder.load(folder, words=5)


def test_the_looks_around_a_word_do_matter_as_far_as_the_reach(
    finder: NameFinder, read: Reader
) -> None:
    words, seen = read(TEXT)
    before = finder.find(words, seen).probability
    place = words.index("works")
    changed = seen.copy()
    changed[place] = FIRST_WORD + READINGS.index("NAME") * 3 + 1
    moved = np.flatnonzero(finder.find(words, changed).probability != before)
    assert len(moved) > 3
    assert np.abs(moved - place).max() <= finder.reach


def test_windows_leave_no_trace(
    finder: NameFinder, read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, seen = read(TEXT * 8)
    monkeypatch.setattr(module, "WINDOW", len(words))
    whole = finder.find(words, seen)
    for window in (1, 7, 100):
        monkeypatch.setattr(module, "WINDOW", window)
        parts = finder.find(words, seen)
        np.testing.assert_allclose(parts.probability, whole.probability, atol=1e-5)


def test_marks_and_identifiers_are_no_names(finder: NameFinder, read: Reader) -> None:
    words, seen = read("Anna, 555-0100 - Rose & Young (anna@example.org) !")
    found = finder.find(words, seen)
    none = seen < FIRST_WORD
    assert none.sum() == 8
    assert not found.kinds[none].any()
    assert not found.probability[none].any()


@given(st.lists(st.text(st.characters(exclude_categories=()), min_size=1), max_size=20), st.data())
def test_takes_any_words(finder: NameFinder, words: list[str], data: st.DataObject) -> None:
    seen = np.array([data.draw(st.integers(1, LOOKS - 1)) for _ in words], np.uint8)
    found = finder.find(words, seen)
    assert found.kinds.dtype == np.uint8
    assert found.probability.dtype == np.float32
    assert found.kinds.shape == found.probability.shape == (len(words),)
    assert ((found.kinds < len(KINDS)) & (found.probability <= 1.000_001)).all()


def test_finds_most_names_that_people_marked(finder: NameFinder, read: Reader) -> None:
    """The finder did not learn from the test part of the web treebank in Universal NER.

    Of some 470 words in names that the list takes for ordinary ones, .80 must be found.
    """
    path = "uner_ewt/test.jsonl.gz"
    found = []
    with gzip.open(shared_data(path) / path, "rt", encoding="utf-8") as file:
        for entry in map(json.loads, file):
            inside = np.array([tag != "O" for tag in entry["ner_tags"]])
            if not inside.any():
                continue
            words, seen = read(" ".join(entry["tokens"]))
            if len(words) != len(entry["tokens"]):
                continue  # the device cuts elsewhere
            kinds = finder.find(words, seen).kinds
            ordinary = (seen - FIRST_WORD) // 3 < READINGS.index("REFERENCE")
            found += (kinds[inside & ordinary & (seen >= FIRST_WORD)] > 0).tolist()
    assert len(found) > 200
    assert np.mean(found) > 0.8


def test_fits_a_small_device() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.glob("names.*")) < 1_500_000


def copy(folder: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, folder / "names"))


def test_a_missing_finder_names_the_command_that_fetches_one(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="sotto pull"):
        NameFinder.load(tmp_path)


def test_a_damaged_finder_is_refused(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    model = bytearray((folder / "names.onnx").read_bytes())
    model[len(model) // 2] ^= 1
    (folder / "names.onnx").write_bytes(model)
    with pytest.raises(DataLoss, match="sha256"):
        NameFinder.load(folder)


def change(folder: Path, **changes: object) -> None:
    description = folder / "names.json"
    told = json.loads(description.read_text("utf-8")) | changes
    description.write_text(json.dumps({k: v for k, v in told.items() if v is not None}), "utf-8")


@pytest.mark.parametrize(
    "changes",
    [
        {"thresholds": dict.fromkeys(KINDS[1:], 0.51)},
        {"thresholds": dict.fromkeys(KINDS[1:], 0)},
        {"thresholds": dict.fromkeys(KINDS[1:], float("nan"))},
        {"thresholds": {"PERSON": 0.5}},
        {"reach": None},
        {"reach": -1},
        {"reach": 10**9},
        {"sha256": 3},
    ],
)
def test_a_description_that_would_find_nothing_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    folder = copy(tmp_path)
    change(folder, **changes)
    with pytest.raises(DataLoss, match="damaged"):
        NameFinder.load(folder)


@pytest.mark.parametrize(
    "changes", [{"format": "names.v9"}, {"kinds": ["PERSON"]}, {"hashes": 3}, {"looks": 9}]
)
def test_another_format_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    folder = copy(tmp_path)
    change(folder, **changes)
    with pytest.raises(BundleMismatch, match="same version"):
        NameFinder.load(folder)


MODEL = (MODELS / "names" / "names.onnx").read_bytes()


@pytest.fixture(scope="module")
def network() -> NameNetwork:
    return NameNetwork(weights(MODEL))


def inputs(n: int) -> dict[str, NDArray[np.int32]]:
    random = np.random.default_rng(n)
    rows = random.integers(20_992, size=(n, len(FEATURES) * HASHES), dtype=np.int32)
    return {"rows": rows, "looks": random.integers(1, LOOKS, size=n, dtype=np.int32)}


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 300])
def test_as_onnxruntime_does(network: NameNetwork, n: int) -> None:
    opened = session(MODEL)
    (expected,) = opened.run(None, inputs(n))
    (found,) = network.run(None, inputs(n))
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_what_is_known_of_a_word_adds_up(network: NameNetwork) -> None:
    given = inputs(40)
    by_feature = given["rows"].reshape(40, len(FEATURES), HASHES)
    place = FEATURES.index("shape")
    others = np.delete(by_feature, place, axis=1).reshape(40, -1)
    parts = network.first(others, shape=False), network.first(by_feature[:, place], shape=True)
    found = network.scores(parts[0] + parts[1], given["looks"])
    np.testing.assert_allclose(found, network.run(None, given)[0], atol=2e-5)


def test_a_word_is_the_same_to_the_bit_among_any_others(network: NameNetwork) -> None:
    rows = inputs(100)["rows"][:, HASHES:]
    whole = network.first(rows, shape=False)
    for part in (slice(0, 1), slice(13, 14), slice(50, 83)):
        np.testing.assert_array_equal(network.first(rows[part], shape=False), whole[part])
