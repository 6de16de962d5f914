"""Training learns from looks alone, and writes a network that devices run."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.names import KINDS, NameFinder
from sottovoce.core.text.onnx_models import session
from sottovoce.core.text.word_classes import LOOKS, READINGS, looks
from sottovoce.core.text.words import split
from sottovoce.models.names_data import NONE, Lists, Marked, Mentions
from sottovoce.models.names_training import (
    Listed,
    Measured,
    NamesHyperparameters,
    Network,
    Size,
    fit,
    measure,
    to_onnx,
    train_names,
    write,
)

PERSON = 1 << KINDS.index("PERSON")
RECIPE = NamesHyperparameters(
    epochs=6,
    marked=1,
    made_up=20,
    batch=4,
    learning_rate=1e-2,
    memory=0.8,
    overdrawn=0.02,
    held_out=4,
    size=Size(rows=(256,) * 8, feature_width=16, width=32, joint=32),
)
NOUNS = ("rich", "young", "rose", "will", "may", "lamp", "river", "stone")
VERBS = ("met", "saw", "knows", "asks")
LISTED = Listed(
    {
        **dict.fromkeys(NOUNS, READINGS.index("NOUN")),
        **dict.fromkeys(VERBS, READINGS.index("VERB")),
        "the": READINGS.index("GRAMMAR"),
        "paris": READINGS.index("NAME"),
    },
    str.lower,
)
LISTS = Lists(("Anna",), ("Marsh",), ("Rome",), ("Freedonia",), ("Rue Longue",), ("Acme",))


def sentences(n: int, seed: int) -> list[Marked]:
    """Only the words around tell: after "the" it is a thing, before a verb a person."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(n):
        thing, name = random.choice(NOUNS, 2)
        words = split(f"{name} {random.choice(VERBS)} the {thing}")
        found.append(Marked(tuple(words), (PERSON, NONE, NONE, NONE), f"d{number // 2}"))
    return found


def mentions() -> Mentions:
    return Mentions(LISTS, LISTED.ordinary, ["river"], np.random.default_rng(1))


@pytest.fixture(scope="module")
def trained() -> Network:
    return fit(sentences(400, 1), sentences(100, 2), mentions(), LISTED, RECIPE)


@pytest.fixture(scope="module")
def finder(trained: Network, tmp_path_factory: pytest.TempPathFactory) -> NameFinder:
    return write(trained, sentences(200, 3), LISTED, tmp_path_factory.mktemp("names"), RECIPE)


def test_learns_what_only_looks_tell(finder: NameFinder) -> None:
    measured = measure(finder, sentences(200, 4), LISTED)
    assert measured == Measured(found=1.0, right_kind=1.0, overdrawn=0.0, words=800)
    words = split("rose met the rose")
    found = finder.find([w.text for w in words], looks(words, LISTED.of(words)))
    assert found.kinds.tolist() == [KINDS.index("PERSON"), 0, 0, 0]


def test_measures_what_the_kinds_are(finder: NameFinder) -> None:
    wrong = [replace(s, allowed=(NONE, NONE, NONE, PERSON)) for s in sentences(200, 4)]
    measured = measure(finder, wrong, LISTED)
    assert measured.found == 0
    assert measured.overdrawn == pytest.approx(1 / 3)


def test_words_that_are_drawn_anyway_are_not_counted(finder: NameFinder) -> None:
    words = tuple(split("paris met the unheard"))
    measured = measure(finder, [Marked(words, (PERSON, NONE, NONE, PERSON), "d")], LISTED)
    assert (measured.words, measured.found) == (2, 0)


def test_the_threshold_lets_so_many_be_called_names(trained: Network, tmp_path: Path) -> None:
    # A quarter of the words look like names and are said to be none.
    kept = [replace(s, allowed=(NONE,) * 4) for s in sentences(200, 3)]
    thresholds, overdrawn = [], []
    for share in (0.3, 0.125, 0.0):
        finder = write(trained, kept, LISTED, tmp_path, replace(RECIPE, overdrawn=share))
        told = json.loads((tmp_path / "names.json").read_text("utf-8"))["thresholds"]
        assert told["PERSON"] == told["PLACE"] <= told["OTHER"] == 0.5
        thresholds.append(told["PERSON"])
        overdrawn.append(measure(finder, kept, LISTED).overdrawn)
    assert thresholds[0] < 0.1
    assert thresholds[1:] == [0.5, 0.5]  # no higher, or the device would refuse the file
    assert overdrawn[0] >= overdrawn[1] == overdrawn[2] == 0.25


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    recipe = replace(RECIPE, epochs=1)
    for name in ("a", "b"):
        network = fit(sentences(40, 1), sentences(20, 2), mentions(), LISTED, recipe)
        write(network, sentences(40, 3), LISTED, tmp_path / name, recipe)
    for file in ("names.onnx", "names.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def data(folder: Path) -> Path:
    """The four data sets, of a few sentences each."""
    tokens, ner = ["Rose", "met", "the", "stone"], ["B-PER", "O", "O", "O"]
    lines = ["# newdoc id = a"]
    for number, (token, tag) in enumerate(
        zip(tokens, ("PROPN", "VERB", "DET", "NOUN"), strict=True), 1
    ):
        lines.append(f"{number}\t{token}\t{token}\t{tag}\tNN\t_\t0\t_\t_\t_")
    treebank = "\n".join([*lines, "", ""])
    several = "".join(treebank.replace("= a", f"= {name}") for name in "abcdef")
    for path, text in {
        "ud_ewt/train.conllu.gz": several,
        "ud_ewt/dev.conllu.gz": treebank,
        "pos_masc/all.jsonl.gz": json.dumps({"tokens": tokens, "xpos": ["NN"] * 4, "doc": "m"}),
        "uner_ewt/dev.jsonl.gz": json.dumps({"tokens": tokens, "ner_tags": ner}),
        "wnut17/train.jsonl.gz": json.dumps(
            {"tokens": tokens, "ner_tags": ["B-person", "O", "O", "O"]}
        ),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(gzip.compress(f"{text}\n".encode()))
    return folder


def test_trains_from_files(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    measured = train_names(
        data(tmp_path / "data"),
        tmp_path / "out",
        LISTED,
        LISTS,
        recipe=replace(RECIPE, epochs=1),
        progress=lambda *now: seen.append(now),
    )
    assert measured.words > 100
    assert seen
    assert all(0 <= done < total for _, done, total in seen)
    assert NameFinder.load(tmp_path / "out").reach == 6


def test_a_network_that_sees_words_is_measured_and_not_written(tmp_path: Path) -> None:
    recipe = replace(RECIPE, epochs=1, size=replace(RECIPE.size, neighbours="words"))
    measured = train_names(data(tmp_path / "data"), tmp_path / "out", LISTED, LISTS, recipe=recipe)
    assert measured.words > 100
    assert not (tmp_path / "out").exists()


def test_missing_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="ud_ewt"):
        train_names(tmp_path, tmp_path / "out", LISTED, LISTS)


SIZE = Size(rows=(32,) * 8, feature_width=8, width=16, distances=(1, 2), joint=12)
Inputs = tuple[torch.Tensor, torch.Tensor]


def network(size: Size = SIZE) -> Network:
    torch.manual_seed(1)
    made = Network(size).eval()
    for norm in made.modules():
        if isinstance(norm, torch.nn.LayerNorm):  # as after training: not all ones and zeros
            torch.nn.init.normal_(norm.weight, 1, 0.1)
            torch.nn.init.normal_(norm.bias, 0, 0.1)
    return made


@pytest.fixture
def inputs() -> Inputs:
    generator = torch.Generator().manual_seed(2)
    rows = torch.randint(0, 256, (1, 15, 16), generator=generator)
    return rows, torch.randint(0, LOOKS, (1, 15), generator=generator)


def moved(made: Network, before: Inputs, after: Inputs) -> list[int]:
    present = torch.ones(1, 15)
    with torch.inference_mode():
        difference = made(*before, present) - made(*after, present)
    return difference.abs().amax((0, 2)).nonzero().flatten().tolist()


def test_another_word_changes_its_own_scores_and_nobody_elses(inputs: Inputs) -> None:
    rows, looks = inputs
    changed = rows.clone()
    changed[:, 7] = 0
    assert moved(network(), (rows, looks), (changed, looks)) == [7]
    seeing = Size(**{**SIZE.__dict__, "neighbours": "words"})
    assert moved(network(seeing), (rows, looks), (changed, looks)) == [4, 5, 6, 7, 8, 9, 10]


def test_another_look_changes_the_words_within_reach(inputs: Inputs) -> None:
    rows, looks = inputs
    changed = looks.clone()
    changed[:, 7] = (looks[:, 7] + 1) % LOOKS
    assert SIZE.reach == 3
    assert moved(network(), (rows, looks), (rows, changed)) == [4, 5, 6, 7, 8, 9, 10]


def test_as_many_empty_places_as_the_longest_distance_keep_passages_apart(inputs: Inputs) -> None:
    rows, looks = inputs
    present = torch.ones(1, 15)
    present[:, 6:8] = 0
    made = network()
    together = made(rows, looks, present)[:, :6]
    torch.testing.assert_close(together, made(rows[:, :6], looks[:, :6], torch.ones(1, 6)))


def test_the_graph_agrees_with_the_network_up_to_rounding() -> None:
    made = network(Size(rows=(40,) * 8, feature_width=16, width=32, joint=24))
    opened = session(to_onnx(made))
    random = np.random.default_rng(4)
    for n_words in (1, 2, 50):
        rows = random.integers(0, 320, (n_words, 16)).astype(np.int32)
        looks = random.integers(0, LOOKS, n_words).astype(np.int32)
        (logits,) = opened.run(None, {"rows": rows, "looks": looks})
        with torch.inference_mode():
            expected = made(
                torch.from_numpy(rows)[None], torch.from_numpy(looks)[None], torch.ones(1, n_words)
            )[0].numpy()
        assert logits.shape == (n_words, len(KINDS))
        assert np.abs(logits - expected).max() < 0.1 * max(expected.std(), 0.3)


def test_weights_take_one_byte_and_the_graph_is_the_same_each_time() -> None:
    made = network(Size())
    graph = to_onnx(made)
    assert graph == to_onnx(made)
    assert len(graph) < 1.3 * sum(weight.numel() for weight in made.parameters()) + 50_000


def test_a_network_that_sees_its_neighbours_words_does_not_ship() -> None:
    with pytest.raises(ValueError, match="must not ship"):
        to_onnx(network(Size(**{**SIZE.__dict__, "neighbours": "words"})))
