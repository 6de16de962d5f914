"""Words of labels are scored with a decoder's own output weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import adapters, backbone
from sottovoce.cloud.models.backbone import LabelWords
from sottovoce.cloud.models.batches import collate, encode
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.training import run, trainer
from sottovoce.cloud.training.run import Labelled, Losses, Objective, fit
from sottovoce.core.errors import InvalidInput
from tests.support.examples import examples

LABELS = ("garden", "kitchen")


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_scores_are_the_language_models_own(family: str, families: dict[str, Path]) -> None:
    folder = families[family]
    loaded = backbone.load(str(folder))
    words = LabelWords.of(loaded, LABELS)
    text = "the doctor wrote a letter"
    batch = collate(encode(loaded.tokenizer, [text], cue=words.cue), 0)
    model = TextClassifier(loaded, Lora(), 2, words=words.weight(loaded))
    with torch.no_grad():
        scores, _ = model(batch)
        whole = AutoModelForCausalLM.from_pretrained(folder)(input_ids=batch.ids).logits
    torch.testing.assert_close(scores[0], whole[0, -1, list(words.words)], atol=1e-5, rtol=0)
    assert "head.weight" not in model.trained()


def test_a_tied_decoder_takes_its_input_embeddings(families: dict[str, Path]) -> None:
    loaded = backbone.load(str(families["qwen2"]))
    words = LabelWords.of(loaded, LABELS)
    table = loaded.model.get_input_embeddings().weight
    assert torch.equal(words.weight(loaded), table[list(words.words)])


def test_what_is_saved_holds_no_head(families: dict[str, Path], tmp_path: Path) -> None:
    loaded = backbone.load(str(families["llama"]))
    options = TrainingOptions(label_words=True, epochs=1, batch_size=8)
    result = trainer.train(examples(24, topics=LABELS), options, loaded, tmp_path / "adapter")
    assert sorted(f.name for f in result.folder.iterdir()) == [
        "adapter.json",
        "adapter_model.safetensors",
    ]
    adapter = adapters.load(result.folder)
    assert adapter.weight is None
    assert adapter.words == LabelWords.of(backbone.load(str(families["llama"])), LABELS)


def test_training_reads_after_the_cue_and_scores_the_words(
    families: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = backbone.load(str(families["llama"]))
    words = LabelWords.of(loaded, LABELS)
    ends: list[tuple[int, ...]] = []

    def looked_at(model: Objective, batches: Iterator[Labelled], *others: Any) -> Iterator[Losses]:
        assert torch.equal(model.model.head.weight, words.weight(loaded))
        given = list(batches)
        for batch in given:
            rows = zip(batch.batch.ids, batch.batch.attention.bool(), strict=True)
            ends.extend(tuple(ids[real][-len(words.cue) :].tolist()) for ids, real in rows)
        return fit(model, iter(given), *others)

    monkeypatch.setattr(run, "fit", looked_at)
    options = TrainingOptions(label_words=True, epochs=1, batch_size=8)
    trainer.train(examples(24, topics=LABELS), options, loaded, tmp_path / "adapter")
    assert len(ends) >= 16
    assert set(ends) == {words.cue}


@pytest.mark.parametrize("family", ["bert", "t5"])
def test_only_decoders_have_them(family: str, families: dict[str, Path]) -> None:
    with pytest.raises(InvalidInput, match="need a decoder"):
        LabelWords.of(backbone.load(str(families[family])), LABELS)


def test_labels_must_differ_in_one_token_after_what_they_share(families: dict[str, Path]) -> None:
    loaded = backbone.load(str(families["llama"]))
    words = LabelWords.of(loaded, ("a dog", "a cat"))
    assert loaded.tokenizer.decode([*words.cue, words.words[1]]) == "\nAnswer: a ca"
    for labels in (("a dog", "a cat", "a calf"), ("a", "a dog")):
        with pytest.raises(InvalidInput, match="two have the same"):
            LabelWords.of(loaded, labels)
