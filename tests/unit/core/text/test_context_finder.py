"""The shipped finder that reads the sentence: names that are words, rows, and what must pass."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady
from sottovoce.core.text import context_finder as module
from sottovoce.core.text.context_finder import BREAK, NAMED, WINDOW, ContextFinder, features
from sottovoce.core.text.names import KINDS
from sottovoce.core.text.onnx_models import session
from sottovoce.core.text.tagger import FeatureSpec
from sottovoce.core.text.words import split

FILES = ("context_finder.onnx", "context_finder.json")
CLITICS = ("'s", "’s")


@pytest.fixture(scope="module")
def finder() -> ContextFinder:
    return ContextFinder.shipped()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shipped = resources.files("sottovoce.core.text")
    for name in FILES:
        (tmp_path / name).write_bytes((shipped / name).read_bytes())
    return tmp_path


def cut(text: str) -> list[str]:
    words: list[str] = []
    for number, line in enumerate(text.split("\n")):
        words += [BREAK] * (number > 0) + [word.text for word in split(line, CLITICS)]
    return words


def named(finder: ContextFinder, text: str) -> dict[str, str]:
    words = cut(text)
    kinds = finder.decide(finder.find(words))
    return {word: KINDS[kind] for word, kind in zip(words, kinds, strict=True) if kind}


@pytest.mark.parametrize(
    ("text", "persons"),
    [
        ("My name is Will Kowalski", ["Will", "Kowalski"]),
        ("Theresa May resigned on Friday", ["Theresa", "May"]),
        ("Please call Mrs Hope PRICE tomorrow", ["Hope"]),
        ("Can Yilmaz asked for a refund", ["Yilmaz"]),
        ("(1,'Long','Rose','1948-02-29')", ["Long", "Rose"]),
        ("i told mia that will is coming", ["mia"]),
        ("MY DOCTOR IS ROSE MAY HUNTER", ["ROSE", "HUNTER"]),
        ("Surname: Long\nFirst name: Rose", ["Long", "Rose"]),
        ('{"id": 3, "name": "Rose"}', ["Rose"]),
        ("Summarise for Priya.", ["Priya"]),
        ("Nadia's rent is late, tell nadia kerr", ["Nadia", "nadia", "kerr"]),
    ],
)
def test_persons_are_found_by_their_context(
    finder: ContextFinder, text: str, persons: list[str]
) -> None:
    found = named(finder, text)
    assert {word: found.get(word) for word in persons} == dict.fromkeys(persons, "PERSON")


@pytest.mark.parametrize(
    "text",
    [
        "May I will my rose garden to the city?",
        "Answer in JSON.",
        "Refactor this function",
        "How do I configure nginx ingress timeouts in kubernetes with helm?",
        "My doctor prescribed ibuprofen 400 mg for my migraine. Is that safe with aspirin?",
        "Translate this to Spanish, then summarise it.",
        "Will it rain in May? I hope so.",
        "What is 17 * 23?",
        "Explain the difference between metformin and semaglutide",
        "Wie kann ich meine Bewerbung verbessern?",
        "let mut parts: Vec<CharField> = Vec::new();",
        "def parse_rows(text): return [row.split() for row in text]",
    ],
)
def test_what_names_nobody_passes(finder: ContextFinder, text: str) -> None:
    assert named(finder, text) == {}


def test_places_and_organisations_have_their_kinds(finder: ContextFinder) -> None:
    found = named(finder, "She lives in Bratislava. I work for Halden Marsh Solutions Ltd.")
    assert found.get("Bratislava") == "PLACE"
    assert found.get("Halden") == found.get("Solutions") == "ORGANISATION"


def test_a_long_text_reads_as_one_run(
    finder: ContextFinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "i told mia that will is coming . Answer in JSON , Rose Long ! " * 90
    words = cut(text)
    assert len(words) > 2 * WINDOW
    windows = finder.find(words)
    monkeypatch.setattr(module, "WINDOW", len(words))
    np.testing.assert_allclose(windows, finder.find(words), atol=1e-4)


def test_the_window_bounds_the_network_s_input(
    finder: ContextFinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    rows_of = FeatureSpec.rows_of

    def counted(self: FeatureSpec, words: list[str]) -> object:
        seen.append(len(words))
        return rows_of(self, words)

    monkeypatch.setattr(FeatureSpec, "rows_of", counted)
    finder.find(["word"] * 5_000)
    assert max(seen) <= WINDOW + 2 * finder.reach


def test_numpy_gives_what_onnxruntime_gives(copy: Path) -> None:
    raw = json.loads((copy / FILES[1]).read_text())
    words = cut("Dear Rose , the bill from Acme Ltd in Lisbon is due in May .")
    rows = FeatureSpec(tuple(raw["rows"]), raw["seed"], features).rows_of(words)
    (scores,) = session((copy / FILES[0]).read_bytes()).run(None, {"rows": rows})
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    letters = [any(map(str.isalpha, word)) for word in words]
    found = ContextFinder.load(copy).find(words)
    np.testing.assert_allclose(found[letters], shares[letters, 1:], atol=1e-4)


def test_equal_text_gives_equal_bytes(finder: ContextFinder) -> None:
    words = cut("Theresa May met the board of Acme Ltd in Lisbon.")
    again = ContextFinder.shipped().find(words)
    assert finder.find(words).tobytes() == again.tobytes()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=90), max_size=40))
def test_any_words_give_probabilities(finder: ContextFinder, words: list[str]) -> None:
    found = finder.find(words)
    assert found.shape == (len(words), len(NAMED))
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found.sum(axis=1, keepdims=True) <= 1 + 1e-5)).all()
    letters = np.array([any(map(str.isalpha, word)) for word in words], bool)
    assert not found[~letters].any()


def test_it_is_small() -> None:
    assert len((resources.files("sottovoce.core.text") / FILES[0]).read_bytes()) <= 3_000_000


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="no context finder") as error:
        ContextFinder.load(tmp_path)
    assert "install sottovoce-core again" in str(error.value.fix)


def test_another_format_is_told(copy: Path) -> None:
    described = copy / FILES[1]
    described.write_text(described.read_text().replace("context_finder.v2", "context_finder.v9"))
    with pytest.raises(BundleMismatch):
        ContextFinder.load(copy)


@pytest.mark.parametrize("kept", [0, 10, 1_000, -1])
def test_a_shortened_network_is_told(copy: Path, kept: int) -> None:
    network = copy / FILES[0]
    network.write_bytes(network.read_bytes()[:kept])
    with pytest.raises(DataLoss, match="damaged"):
        ContextFinder.load(copy)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": [1 << 23] * 10},
        {"rows": [512] * 8},
        {"thresholds": {"PERSON": 0.2}},
        {"thresholds": dict.fromkeys(NAMED, 2.0)},
        {"kinds": "PERSON"},
        {"seed": -1},
    ],
)
def test_a_description_that_does_not_fit_is_told(copy: Path, change: dict[str, object]) -> None:
    described = copy / FILES[1]
    described.write_text(json.dumps(json.loads(described.read_text()) | change))
    with pytest.raises((DataLoss, BundleMismatch)):
        ContextFinder.load(copy)


def test_a_network_with_strange_operators_is_told(copy: Path) -> None:
    network = copy / FILES[0]
    changed = network.read_bytes().replace(b"\x22\x04Relu", b"\x22\x04Loop")
    network.write_bytes(changed)
    raw = json.loads((copy / FILES[1]).read_text())
    raw["sha256"] = hashlib.sha256(changed).hexdigest()
    (copy / FILES[1]).write_text(json.dumps(raw))
    with pytest.raises(DataLoss, match="damaged"):
        ContextFinder.load(copy)


def test_a_network_larger_than_the_limit_is_not_read(copy: Path) -> None:
    with (copy / FILES[0]).open("ab") as file:
        file.truncate(1 << 30)  # sparse
    with pytest.raises(DataLoss, match="more than"):
        ContextFinder.load(copy)
