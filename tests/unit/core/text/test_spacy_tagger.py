"""Any spaCy pipeline can tag; untagged words are unknown, and no word is kept."""

import sys
from pathlib import Path

import pytest

from sottovoce.core.errors import NotReady
from sottovoce.core.text.tagger import UPOS, SpacyTagger

spacy = pytest.importorskip("spacy", reason="spaCy is an extra: sottovoce-edge[spacy]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a real pipeline with rules for three words."""
    pipeline = spacy.blank("en")
    rules = pipeline.add_pipe("attribute_ruler")
    for word, tag in (("the", "DET"), ("don't", "AUX"), (" ", "SPACE")):
        rules.add([[{"LOWER": word}]], {"POS": tag})
    folder = tmp_path_factory.mktemp("pipeline")
    pipeline.to_disk(folder)
    return folder


def test_takes_the_tags_of_the_pipeline_and_protects_the_rest(folder: Path) -> None:
    tags = SpacyTagger(str(folder)).tag(["The", "zyzzyva", " ", "don't"])
    assert [UPOS[tag] for tag in tags.ids] == ["DET", "X", "X", "AUX"]
    assert tags.confidence.tolist() == [1, 0, 0, 1]


def test_neither_cuts_nor_joins_words_of_long_documents(folder: Path) -> None:
    words = ["don't", "a-b", "x"] * 2_000
    tags = SpacyTagger(str(folder)).tag(words)
    assert len(tags.ids) == len(tags.confidence) == len(words)
    assert (tags.ids.reshape(-1, 3) == tags.ids[:3]).all()


def test_no_words_give_no_tags(folder: Path) -> None:
    assert len(SpacyTagger(str(folder)).tag([]).ids) == 0


def test_forgets_the_words(folder: Path) -> None:
    tagger = SpacyTagger(str(folder))
    tagger.tag(["quixotically"])
    assert "quixotically" not in tagger._pipeline.vocab.strings
    assert "quixotically" not in {lexeme.text for lexeme in tagger._pipeline.vocab}


def test_a_missing_pipeline_names_the_command_that_fetches_it() -> None:
    with pytest.raises(NotReady, match="spacy download xx_none"):
        SpacyTagger("xx_none")


def test_missing_spacy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(NotReady, match=r"sottovoce-edge\[spacy\]"):
        SpacyTagger("en_core_web_sm")
