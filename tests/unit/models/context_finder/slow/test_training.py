"""Training reads the sentence, and writes a network that devices run."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sottovoce.cloud.models import backbone
from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.context_finder import FEATURES, ContextFinder, features
from sottovoce.core.text.onnx_models import weights
from sottovoce.core.text.tagger import FeatureSpec
from sottovoce.core.text.words import split
from sottovoce.models.context_finder.evaluation import Document, documents, evaluate
from sottovoce.models.context_finder.full import FullNetwork
from sottovoce.models.context_finder.network import Network, Size, Vectors, read_vectors, restore
from sottovoce.models.context_finder.sentences import read_marked
from sottovoce.models.context_finder.training import (
    ContextFinderHyperparameters,
    Taught,
    apart,
    fit,
    opinions,
    read_public,
    write,
)
from sottovoce.models.encoder import ADAPTER
from sottovoce.models.names_data import ANY, NONE, Lists, Marked
from tests.support.shared_data import shared_data

PERSON = 2
WORDS = ("rose", "will", "may", "mark")
LISTS = Lists(("Anna",), ("Marsh",), ("Rome",), ("Freedonia",), ("Rue Longue",), ("Acme",))
RECIPE = ContextFinderHyperparameters(
    epochs=12,
    marked=4,
    requests=4,
    mentions=4,
    records=4,
    made_up=4,
    batch=2,
    learning_rate=1e-2,
    memory=0.8,
    size=Size(rows=(512,) * len(FEATURES), feature_width=8, width=32, distances=(1, 2)),
)


def sentences(n: int) -> list[Marked]:
    """Return sentences in which a word is a name after "ask" and none after "the"."""
    random = np.random.default_rng(3)
    found = []
    for number in range(n):
        name, thing = random.choice(WORDS, 2)
        words = tuple(split(f"please ask {name} about the {thing} today"))
        allowed = tuple(PERSON if at == 2 else NONE for at in range(len(words)))
        found.append(Marked(words, allowed, f"document {number}"))
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finder")
    network = fit(sentences(150), sentences(60), LISTS, None, RECIPE)
    assert write(network, out, RECIPE) == (out / "context_finder.onnx").stat().st_size
    return out


def test_a_word_is_told_by_its_neighbours(written: Path) -> None:
    finder = ContextFinder.load(written)
    found = finder.find(["please", "ask", "will", "about", "the", "will", "today"])[:, 0]
    assert found[2] > 0.5 > found[5]


def test_the_same_seed_gives_the_same_file(tmp_path: Path) -> None:
    short = replace(RECIPE, epochs=1)
    for name in ("one", "two"):
        write(fit(sentences(20), sentences(20), LISTS, None, short), tmp_path / name, short)
    one, two = ((tmp_path / name / "context_finder.onnx").read_bytes() for name in ("one", "two"))
    assert one == two


def test_a_written_finder_can_be_trained_further(written: Path) -> None:
    network = Network(RECIPE.size).eval()
    restore(network, weights((written / "context_finder.onnx").read_bytes()))
    words = ["please", "ask", "will", "about", "the", "will", "today"]
    rows = torch.from_numpy(FeatureSpec(RECIPE.size.rows, RECIPE.seed, features).rows_of(words))[
        None
    ]
    with torch.inference_mode():
        scores = network(rows, torch.ones(1, len(words)))[0].softmax(-1).numpy()
    found = ContextFinder.load(written).find(words)
    np.testing.assert_allclose(scores[:, 1:], found, atol=1e-3)
    before = [each.clone() for each in network.parameters()]
    short = replace(RECIPE, epochs=1)
    further = fit(sentences(9), sentences(9), LISTS, None, short, start=network)
    assert all(map(torch.equal, before, network.parameters()))
    assert not all(map(torch.equal, before, further.parameters()))


def test_the_teacher_s_opinion_is_learned_where_marks_are_open(tmp_path: Path) -> None:
    def opened(sentence: Marked) -> Taught:
        told = np.zeros((len(sentence.words), 5), np.float16)
        told[:, 0] = 1
        told[2] = (0, 0, 1, 0, 0)
        return Marked(sentence.words, (ANY,) * len(sentence.words), ""), told

    taught = [opened(sentence) for sentence in sentences(150)]
    write(fit(sentences(9), sentences(9), LISTS, None, RECIPE, taught=taught), tmp_path, RECIPE)
    found = ContextFinder.load(tmp_path).find(
        ["please", "ask", "mark", "about", "the", "mark", "today"]
    )
    assert found[2, 1] > 0.5 > found[5].sum()


def test_marks_win_over_the_teacher() -> None:
    scores = torch.zeros(1, 2, 5)
    told = torch.tensor([[[0.9, 0.1, 0, 0, 0], [0.1, 0.9, 0, 0, 0]]])
    allowed = torch.tensor([[PERSON, PERSON]])
    alone = apart(scores[:, 1:], told[:, 1:], allowed[:, 1:], 1.5)
    torch.testing.assert_close(apart(scores, told, allowed, 1.5), alone)
    assert alone > 0
    assert not apart(scores, told * 0, allowed, 1.5)


def test_the_teacher_finds_names_in_public_text(tmp_path: Path) -> None:
    default = backbone.load("default")
    teacher = FullNetwork(default)
    teacher.restore(ADAPTER)
    text = Marked(tuple(split("My doctor Nadia Kowalski lives in Zagreb.")), (ANY,) * 8, "")
    ((same, told),) = opinions(teacher, [text])
    assert same == text
    assert told.argmax(axis=1).tolist() == [0, 0, 1, 1, 0, 0, 2, 0]
    np.testing.assert_allclose(told.sum(axis=1, dtype=np.float32), 1, atol=1e-2)


def test_public_text_is_cut_in_passages() -> None:
    data = shared_data("text", "movie_reviews")
    passages = read_public(data, 500, np.random.default_rng(1))
    assert sum(len(passage.words) for passage in passages) >= 8 * 500
    assert max(len(passage.words) for passage in passages) <= 60


def test_vectors_of_kin_words_lie_close() -> None:
    text = [Marked(tuple(split("dog cat horse july may june " * 9)), (), "")]
    found = read_vectors(backbone.load("default"), text, LISTS, ["A cat sleeps."], most=300)
    assert found.vectors.shape == (300, 128)
    rows = found.vectors / np.linalg.norm(found.vectors, axis=1, keepdims=True)
    of = dict(zip(found.words, rows, strict=True))
    assert of["dog"] @ of["cat"] > of["dog"] @ of["june"] < of["july"] @ of["june"]


def test_features_learn_vectors_first() -> None:
    vectors = Vectors(WORDS, np.eye(len(WORDS), dtype=np.float32))
    short = replace(RECIPE, epochs=1)
    told = []
    fit(sentences(9), sentences(9), LISTS, vectors, short, lambda what, *_: told.append(what))
    assert told[0].startswith("vectors")


def test_missing_data_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no marked text"):
        read_marked(tmp_path)


def test_judging_sets_are_not_learned_from(tmp_path: Path) -> None:
    sets = {
        "wnut17": ("train", "dev"),
        "btc": ("train", "dev"),
        "wikigold": ("all",),
        "crossner": ("train",),
        "sec_filings": ("train",),
        "uner_ewt": ("dev", "test"),
    }
    for folder, parts in sets.items():
        (tmp_path / folder).mkdir()
        for part in parts:
            entry = {"tokens": [f"{folder}{part}", "x"], "ner_tags": ["O", "O"]}
            with gzip.open(tmp_path / folder / f"{part}.jsonl.gz", "wt") as file:
                file.write(json.dumps(entry) + "\n")
    (tmp_path / "ud_ewt").mkdir()
    with gzip.open(tmp_path / "ud_ewt" / "dev.conllu.gz", "wt") as file:
        file.write("# newdoc id = a\n1\tuner_ewtdev\t_\tNOUN\tNN\t_\t0\t_\t_\t_\n")
        file.write("2\tx\t_\tNOUN\tNN\t_\t0\t_\t_\t_\n\n")
    read = {word.text for sentence in read_marked(tmp_path) for word in sentence.words}
    assert {"wnut17train", "btctrain"} <= read
    assert not {"wnut17dev", "btcdev", "uner_ewttest"} & read


def test_the_figures_count_spans_words_and_what_is_taken(written: Path) -> None:
    words = ("please", "ask", "will", "about", "the", "will", "today")
    text = Document(words, (True,) * len(words), ((2, 3, "PERSON"), (5, 6, "PERSON")))
    finder = ContextFinder.load(written)
    (row,) = evaluate(finder, [("own", [text])], (0.5,))
    assert row.missed == {"PERSON": (2, 1, 2, 1)}
    assert (row.unmarked, row.taken) == (5, 0)
    (row,) = evaluate(finder, [("own", [text])], (0.5,), frozenset(words) - {"today"})
    assert row.taken == 1


def test_texts_are_cut_with_their_spans(tmp_path: Path) -> None:
    (tmp_path / "pii").mkdir()
    entry = {"text": "Hi!\nI am Rose Long.", "spans": [{"start": 9, "end": 18, "kind": "PERSON"}]}
    with gzip.open(tmp_path / "pii" / "dev.jsonl.gz", "wt") as file:
        file.write(json.dumps(entry) + "\n")
    name, (text,) = next(iter(documents(tmp_path)))
    ((first, end, kind),) = text.spans
    assert (name, kind, text.words[first:end]) == ("pii", "PERSON", ("Rose", "Long"))
    assert "\n" in text.words
