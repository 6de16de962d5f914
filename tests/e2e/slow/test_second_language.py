"""A German bundle from data alone: a treebank, a spaCy pipeline and a vocabulary."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import spacy
import torch
from click.testing import CliRunner
from spacy.tokens import Doc
from spacy.training import Example
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.text.tagger import UPOS, SpacyTagger
from sottovoce.edge import cli as edge_cli
from sottovoce.models import cli as models_cli
from sottovoce.models import frequencies
from tests.support.rough_levels import rough_levels

GERMAN = {
    "code": "de",
    "clitics": [],
    "accents": True,
    "carriers": [
        ["Wir", "sehen", None, "."],
        ["Der", None, "war", "hier", "."],
        ["Es", "ist", "sehr", None, "."],
    ],
}
EPOCHS = 15
TEXT = "Meine Tante fährt schon wieder nach Köln,  weil’s dort schön ist.\tGruß: Jörn Ökl"

Tagged = list[tuple[str, str]]


def sentences() -> list[Tagged]:
    lines = (Path(__file__).parent / "german.txt").read_text("utf-8").splitlines()
    return [[(w, t) for w, _, t in (p.rpartition("/") for p in line.split())] for line in lines]


def write_treebank(file: Path, treebank: list[Tagged]) -> None:
    """CoNLL-U, as treebanks are published: "im" is there as the two words "in dem"."""
    with file.open("w", encoding="utf-8") as out:
        for sentence in treebank:
            number = 1
            for word, tag in sentence:
                parts = [("in", "ADP"), ("dem", "DET")] if word == "im" else [(word, tag)]
                if len(parts) > 1:
                    out.write(f"{number}-{number + 1}\t{word}" + "\t_" * 8 + "\n")
                for part, upos in parts:
                    out.write(f"{number}\t{part}\t_\t{upos}" + "\t_" * 6 + "\n")
                    number += 1
            out.write("\n")


def train_pipeline(folder: Path, treebank: list[Tagged]) -> None:
    """A blank German pipeline that learns the tags."""
    spacy.util.fix_random_seed(0)
    pipeline = spacy.blank("de")
    pipeline.add_pipe("morphologizer")
    examples = []
    for sentence in treebank:
        words, tags = [word for word, _ in sentence], [tag for _, tag in sentence]
        reference = Doc(pipeline.vocab, words=words, pos=tags)
        examples.append(Example(Doc(pipeline.vocab, words=words), reference))
    optimizer = pipeline.initialize(lambda: examples)
    shuffled = random.Random(0)
    for _ in range(EPOCHS):
        shuffled.shuffle(examples)
        for start in range(0, len(examples), 16):
            pipeline.update(examples[start : start + 16], sgd=optimizer)
    pipeline.to_disk(folder)


def write_backbone(folder: Path, words: list[str]) -> None:
    """Write a BERT with random weights; its WordPieces keep capitals and umlauts."""
    letters = sorted({letter for word in words for letter in word})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces = dict.fromkeys((*special, *words, *letters, *(f"##{letter}" for letter in letters)))
    ids = {piece: place for place, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=special[1]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    config = BertConfig(vocab_size=len(ids), num_attention_heads=2, **size)
    BertModel(config).save_pretrained(folder)


def invoke(program: Any, *words: str | Path, text: str | None = None, **environ: str) -> Any:
    """The JSON object a command prints; its error where it fails."""
    done = CliRunner().invoke(program, [*map(str, words), "--json"], input=text, env=environ)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Made:
    root: Path
    built: dict[str, Any]

    @property
    def pipeline(self) -> Path:
        return self.root / "pipeline"

    @property
    def bundle(self) -> Bundle:
        return Bundle.open(self.root / "data" / "current")

    def device(self, **more: str) -> dict[str, str]:
        """Settings of a device that has pulled the bundle."""
        return {
            "HOME": str(self.root),
            "SOTTO_BUNDLE_PATH": str(self.root / "data"),
            "SOTTO_BUNDLE_ACCEPT_UNCHECKED": "true",
            "SOTTO_AGENT_STATE": str(self.root / "state"),
            "SOTTO_AGENT_LISTEN": f"unix:{self.root / 's'}",
        } | more


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """All that a provider does for another language."""
    root = tmp_path_factory.mktemp("german")
    treebank = sentences()
    (root / "text").mkdir()
    write_treebank(root / "text" / "small.conllu", treebank)
    (root / "text" / "more.txt").write_text("Die Küche ist schon schön.\n" * 4, encoding="utf-8")
    (root / "de.json").write_text(json.dumps(GERMAN), encoding="utf-8")
    train_pipeline(root / "pipeline", treebank)
    met = Counter(word for sentence in treebank for word, tag in sentence if tag != "PUNCT")
    write_backbone(root / "bert", sorted(met))
    invoke(
        *(models_cli.main, "count-words", "--data", root / "text", "--language", root / "de.json"),
        *("--spacy", root / "pipeline", "--out", root / "models" / "frequencies"),
    )
    facts = root / "models" / "facts" / "words.tsv"
    facts.parent.mkdir()
    facts.write_text("word\tkind\nkrank\thealth\nzwei\tnumber\n", encoding="utf-8")
    with rough_levels():
        built = invoke(
            *(models_cli.main, "build-bundle", "--models", root / "models", "--dimensions", "8"),
            *("--spacy", root / "pipeline", "--backbone", root / "bert"),
            *("--out", root / "data" / "current"),
        )
    return Made(root, built)


def test_the_words_are_counted_as_the_language_writes_them(made: Made) -> None:
    table = frequencies.load(made.root / "models" / "frequencies")
    assert table.language.code == "de"
    assert not table.clitics.any()
    # Umlauts tell words apart, and "im" is what people type, not the "in dem" of the treebank.
    counted = Counter[str]()
    for word, count in zip(table.words, table.counts.tolist(), strict=True):
        counted[word] += count
    assert (counted["schon"], counted["schön"], counted["küche"]) == (6, 4, 6)
    assert table.count("im", "ADP") == 9


def test_the_bundle_says_its_language_and_lists_its_words(made: Made) -> None:
    manifest = made.bundle.manifest
    assert manifest.language == "de"
    assert manifest.clitics == ()
    assert not any(name.endswith("+clitic") for name in manifest.classes)
    assert {"Straße", "Küche", "schläft", "heiß"} <= set(made.bundle.words)
    nouns = {made.bundle.words[word] for word in made.bundle.class_members("NOUN")}
    assert {"Haus", "Brief", "Arzt"} <= nouns
    assert not {"und", "im", "die"} & nouns
    assert not made.bundle.tagger_folder.exists()
    assert not made.bundle.names_folder.exists()


def test_the_pipeline_learnt_its_tags(made: Made) -> None:
    unseen = ["Der", "alte", "Lehrer", "kauft", "im", "Sommer", "ein", "Fahrrad", "."]
    tags = [UPOS[tag] for tag in SpacyTagger(str(made.pipeline)).tag(unseen).ids]
    wanted = ["DET", "ADJ", "NOUN", "VERB", "ADP", "NOUN", "DET", "NOUN", "PUNCT"]
    assert sum(map(str.__eq__, tags, wanted)) >= 7, tags


@pytest.mark.parametrize("mechanism", ["pct2t.v2", "pct2t.v1", "t2t.v1"])
def test_the_device_privatises_german(made: Made, mechanism: str, tmp_path: Path) -> None:
    device = made.device(
        SOTTO_TAGGER_BACKEND="spacy",
        SOTTO_TAGGER_PIPELINE=str(made.pipeline),
        SOTTO_AGENT_STATE=str(tmp_path),
    )
    options = ("--level", "strong", "--mechanism", mechanism, "--policy", "all")
    answer = invoke(edge_cli.main, "privatize", *options, text=TEXT, **device)
    listed = {word.lower() for word in made.bundle.words}
    words = answer["words"]
    typed = [TEXT[word["start"] : word["end"]] for word in words]
    said = [answer["text"][word["released_start"] : word["released_end"]] for word in words]

    assert answer["text"] != TEXT
    assert "weil’s" in typed  # no English clitic was cut off
    assert [w for w in typed if not w[0].isalpha()] == [",", ".", ":"]
    for word, before, after in zip(words, typed, said, strict=True):
        assert word["protected"] == before[0].isalpha()
        assert word["treatment"] != "NOISE" or after.lower() in listed
        assert word["protected"] or after == before
    assert {"Jörn", "Ökl", "weil’s", "Gruß"}.isdisjoint(said)  # not in the list: never as they are
    assert ",  " in answer["text"]
    assert ".\t" in answer["text"]


def test_a_device_left_with_the_default_tagger_is_told_what_to_set(made: Made) -> None:
    asked = ["privatize", "--mechanism", "pct2t.v1"]  # which reads context
    done = CliRunner().invoke(edge_cli.main, asked, input=TEXT, env=made.device())
    assert done.exit_code != 0
    assert "'de'" in done.output
    assert 'tagger.backend = "spacy"' in done.output


def test_a_pipeline_of_another_language_is_refused(made: Made, tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "english")
    words = ["build-bundle", "--models", made.root / "models", "--spacy", tmp_path / "english"]
    done = CliRunner().invoke(models_cli.main, [*map(str, words), "--out", str(tmp_path / "out")])
    assert done.exit_code != 0
    assert "'en'" in done.output
    assert "'de'" in done.output
    assert not (tmp_path / "out").exists()
