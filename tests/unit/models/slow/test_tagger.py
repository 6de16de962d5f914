"""Training learns a small language from context, and writes a network that devices run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.onnx_models import session
from sottovoce.core.text.tagger import UPOS, OnnxTagger
from sottovoce.models.corpus import TAG_ID, Sentence
from sottovoce.models.tagger import (
    NO_WORD,
    Network,
    Size,
    TaggerHyperparameters,
    averaged,
    fit,
    measure,
    pace,
    partial_loss,
    to_onnx,
    train_tagger,
    write,
)

RECIPE = TaggerHyperparameters(
    epochs=8,
    last_epochs=8,
    batch=4,
    learning_rate=1e-2,
    memory=0.8,
    size=Size(rows=(256,) * 8, feature_width=16, width=32, depth=2),
)
# Only the word before tells what these are: "the run", "they run".
AMBIGUOUS = ("run", "walk", "dance", "love", "work", "play")
PENN = {"DET": "DT", "NOUN": "NN", "PRON": "PRP", "VERB": "VBP", "PUNCT": "."}


def sentences(n: int, seed: int) -> list[Sentence]:
    random = np.random.default_rng(seed)
    found = []
    for i in range(n):
        noun, verb = random.choice(AMBIGUOUS, 2)
        pairs = [("they", "PRON"), (verb, "VERB"), ("the", "DET"), (noun, "NOUN"), (".", "PUNCT")]
        if random.random() < 0.5:
            pairs = [*pairs[2:4], ("we", "PRON"), (verb, "VERB"), (".", "PUNCT")]
        words, tags = zip(*pairs, strict=True)
        found.append(Sentence(words, tuple(1 << TAG_ID[tag] for tag in tags), f"d{i // 4}"))
    return found


def conllu(path: Path, found: list[Sentence]) -> None:
    lines: list[str] = []
    for sentence in found:
        lines.append(f"# newdoc id = {sentence.document}")
        for i, (word, allowed) in enumerate(zip(sentence.words, sentence.allowed, strict=True), 1):
            tag = UPOS[allowed.bit_length() - 1]
            lines.append(f"{i}\t{word}\t{word}\t{tag}\t{PENN[tag]}\t_\t0\t_\t_\t_")
        lines.append("")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    web = tmp_path / "data" / "ud_ewt"
    for part, n in (("train", 300), ("dev", 100), ("test", 100)):
        conllu(web / f"{part}.conllu.gz", sentences(n, seed=n))
    entry = {"tokens": ["the", "run", "."], "xpos": ["DT", "NN", "."], "doc": "m"}
    masc = tmp_path / "data" / "pos_masc"
    masc.mkdir()
    (masc / "all.jsonl.gz").write_bytes(gzip.compress((json.dumps(entry) + "\n").encode() * 50))
    return tmp_path / "data"


def test_learns_from_files_what_only_context_tells(data: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    measured = train_tagger(
        data, tmp_path / "out", recipe=RECIPE, progress=lambda *now: seen.append(now)
    )
    # Without context one of the two ambiguous words in five would be wrong half the time: .8.
    assert measured.accuracy > 0.97
    assert measured.words == 500
    assert measured.calibration_error < 0.1
    assert seen
    assert all(0 <= done < total for _, done, total in seen)
    tagger = OnnxTagger.load(tmp_path / "out")
    assert [UPOS[tag] for tag in tagger.tag(["they", "dance", "the", "dance", "."]).ids] == [
        *("PRON", "VERB", "DET", "NOUN", "PUNCT")
    ]


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    recipe = TaggerHyperparameters(batch=4, size=RECIPE.size)
    for name in ("a", "b"):
        write(fit([sentences(40, 1)], recipe), sentences(10, 2), tmp_path / name, recipe)
    for file in ("tagger.onnx", "tagger.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_measures_what_the_tags_are(tmp_path: Path) -> None:
    tagger = write(fit([sentences(40, 1)] * 8, RECIPE), sentences(10, 2), tmp_path, RECIPE)
    found = sentences(50, 3)
    wrong = [Sentence(s.words, (1 << TAG_ID["X"],) * len(s.words), s.document) for s in found]
    assert measure(tagger, wrong).accuracy == 0
    assert measure(tagger, wrong).calibration_error > 0.5


def test_a_missing_treebank_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="ud_ewt"):
        train_tagger(tmp_path, tmp_path / "out")


def test_loss_asks_for_any_of_the_allowed_tags() -> None:
    scores = torch.log(torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]]]))
    allowed = torch.tensor([[0b011, 0b100, NO_WORD]])
    expected = -(np.log(0.8) + np.log(0.8)) / 2
    assert float(partial_loss(scores, allowed)) == pytest.approx(expected, abs=1e-6)
    weighted = partial_loss(scores, torch.tensor([[1, 1, 0]]), torch.tensor([[3.0, 1.0, 9.0]]))
    expected = -(3 * np.log(0.5) + np.log(0.1)) / 4
    assert float(weighted) == pytest.approx(expected, abs=1e-6)


def test_what_comes_out_is_the_running_average_of_the_weights() -> None:
    network, passed = nn.Linear(1, 1, bias=False).eval(), []
    was_training = []

    def losses() -> Iterator[tuple[float, Tensor]]:
        for step in range(41):
            was_training.append(network.training)
            passed.append(network.weight.item())
            yield step / 41, (network.weight - 3).square().sum()

    told: list[tuple[str, int, int]] = []
    out = averaged(network, losses(), 0.1, 0.75, lambda *now: told.append(now))
    passed.append(network.weight.item())
    expected = passed[1]  # the average starts with the weights after the first step
    for weight in passed[2:]:
        expected = 0.75 * expected + 0.25 * weight
    assert out.weight.item() == pytest.approx(expected, abs=1e-5)
    assert abs(passed[-1] - 3) < abs(passed[0] - 3)
    assert (all(was_training), out.training) == (True, False)
    assert [done for _, done, _ in told] == [0, 1000 * 20 // 41, 1000 * 40 // 41]


def test_the_pace_rises_and_falls_to_almost_nothing() -> None:
    assert pace(0) == pace(1) == pytest.approx(0.001)
    assert pace(0.05) == pytest.approx(1.001, abs=0.01)
    paces = [pace(done) for done in np.linspace(0.05, 1, 20)]
    assert paces == sorted(paces, reverse=True)


SIZE = Size(rows=(32,) * 8, feature_width=8, width=16, depth=2)


@pytest.fixture
def network() -> Network:
    torch.manual_seed(1)
    return Network(SIZE).eval()


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.randint(0, 32, (2, 11, 16), generator=torch.Generator().manual_seed(2))


def test_a_score_depends_on_as_many_words_as_there_are_layers(
    network: Network, rows: torch.Tensor
) -> None:
    changed = rows.clone()
    changed[:, 5] = 0
    difference = network(rows, torch.ones(2, 11)) - network(changed, torch.ones(2, 11))
    moved = difference.abs().amax((0, 2)) > 1e-6
    assert moved.nonzero().flatten().tolist() == [3, 4, 5, 6, 7]


def test_an_empty_place_keeps_passages_apart(network: Network, rows: torch.Tensor) -> None:
    present = torch.ones(2, 11)
    present[:, 5] = 0
    together = network(rows, present)[:, :5]
    alone = network(rows[:, :5], torch.ones(2, 5))
    torch.testing.assert_close(together, alone)


def trained_like(size: Size) -> Network:
    torch.manual_seed(3)
    network = Network(size).eval()
    for norm in network.modules():
        if isinstance(norm, torch.nn.LayerNorm):  # as after training: not all ones and zeros
            torch.nn.init.normal_(norm.weight, 1, 0.1)
            torch.nn.init.normal_(norm.bias, 0, 0.1)
    return network


def test_agrees_with_the_network_up_to_rounding() -> None:
    network = trained_like(Size(rows=(40,) * 8, feature_width=16, width=32, depth=3))
    opened = session(to_onnx(network))
    rows = np.random.default_rng(4).integers(0, 320, (50, 16)).astype(np.int32)
    (logits,) = opened.run(None, {"rows": rows})
    with torch.inference_mode():
        expected = network(torch.from_numpy(rows)[None], torch.ones(1, 50))[0].numpy()
    assert np.abs(logits - expected).max() < 0.05 * expected.std()


def test_one_word_is_enough() -> None:
    network = trained_like(Size(rows=(9,) * 8, feature_width=4, width=8, depth=4))
    opened = session(to_onnx(network))
    (logits,) = opened.run(None, {"rows": np.zeros((1, 16), np.int32)})
    assert logits.shape == (1, 17)
    assert np.isfinite(logits).all()


def test_weights_take_one_byte_and_the_graph_is_the_same_each_time() -> None:
    network = trained_like(Size())
    graph = to_onnx(network)
    assert graph == to_onnx(network)
    assert len(graph) < 1.1 * sum(weight.numel() for weight in network.parameters()) + 50_000
