"""Training learns a small language from its context, and writes what the device can run."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.tagger import UPOS, OnnxTagger
from sottovoce.models.corpus.treebanks import TAG_ID, Sentence, read_conllu
from sottovoce.models.tagger.network import Size
from sottovoce.models.tagger.training import (
    TaggerHyperparameters,
    fit,
    measure,
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


def test_reads_back_what_the_fixture_wrote(data: Path) -> None:
    assert read_conllu(data / "ud_ewt" / "dev.conllu.gz") == sentences(100, seed=100)
