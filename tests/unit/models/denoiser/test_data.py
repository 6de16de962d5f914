"""Shards are made once, survive a stop, and are never met again by other data."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.core.errors import InvalidInput
from sottovoce.models import denoiser_data
from sottovoce.models.denoiser_data import Passages
from tests.support.backbones import tiny_bert
from tests.support.examples import WORDS
from tests.support.shared_data import shared_data


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> backbones.LoadedBackbone:
    return backbones.load(str(tiny_bert(tmp_path_factory.mktemp("tiny") / "bert")))


@pytest.fixture
def passages(backbone: backbones.LoadedBackbone) -> Passages:
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, n)) for n in random.integers(1, 20, 50)]
    return denoiser_data.tokenize(backbone.tokenizer, [*texts, ""])


def test_passages_are_the_tokenizer_s(backbone: backbones.LoadedBackbone) -> None:
    found = denoiser_data.tokenize(backbone.tokenizer, ["tree leaf", "", "soup with bread " * 100])
    wanted = backbone.tokenizer("tree leaf", add_special_tokens=False)["input_ids"]

    assert len(found) == 2  # the empty one is left out
    assert found[0].tolist() == wanted
    assert found.lengths.tolist() == [2, denoiser_data.LONGEST]
    assert found.first(1).lengths.tolist() == [2]
    assert found.first(1).sha256 != found.sha256


def test_a_stopped_run_goes_on_with_the_next_shard(
    backbone: backbones.LoadedBackbone,
    passages: Passages,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(denoiser_data, "_SHARD", 16)
    encoder = Encoder(backbone)
    whole = denoiser_data.clean(passages, encoder, tmp_path / "whole")

    def stop(stage: str, done: int, total: int) -> None:
        if done == 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        denoiser_data.clean(passages, encoder, tmp_path / "stopped", stop)
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "stopped").iterdir()}
    again = denoiser_data.clean(passages, encoder, tmp_path / "stopped")

    assert len(kept) == 2
    assert all(file.stat().st_mtime_ns == written for file, written in kept.items())
    np.testing.assert_array_equal(again, whole)
    texts = [backbone.tokenizer.decode(passages[place]) for place in range(len(passages))]
    cosines = (whole * encoder.encode_clean(texts).numpy()).sum(axis=1)
    assert cosines.min() > 0.995  # the cache is made in bfloat16


def test_answers_near_the_clean_ones_where_there_is_hardly_any_noise(
    backbone: backbones.LoadedBackbone, passages: Passages, tmp_path: Path
) -> None:
    embeddings = backbones.input_embeddings(backbone)
    space = np.random.default_rng(1).standard_normal((len(embeddings), 4)).astype(np.float32)
    encoder = Encoder(backbone)
    posterior = PosteriorMean(space, embeddings, np.zeros(len(space), np.float32))
    clean = denoiser_data.clean(passages, encoder, tmp_path / "clean").astype(np.float32)
    found = {
        eta: denoiser_data.answers(
            passages, encoder, posterior, space, (eta, 2 * eta), tmp_path / str(eta)
        )
        for eta in (1e-3, 1e4)
    }
    near, far = (
        (found[eta].embeddings.astype(np.float32) * clean).sum(axis=1).mean() for eta in (1e4, 1e-3)
    )

    assert near > 0.99
    assert far < near
    assert ((found[1e4].eta >= 1e4) & (found[1e4].eta <= 2e4)).all()
    assert torch.from_numpy(found[1e4].embeddings).isfinite().all()


def test_names_follow_all_facts(tmp_path: Path) -> None:
    names = {
        denoiser_data.named(tmp_path, "clean", backbone="a", seed=1),
        denoiser_data.named(tmp_path, "clean", backbone="a", seed=2),
        denoiser_data.named(tmp_path, "clean", backbone="b", seed=1),
    }
    assert len(names) == 3
    assert denoiser_data.named(tmp_path, "x", a=1, b=2) == denoiser_data.named(
        tmp_path, "x", b=2, a=1
    )


def test_reads_paragraphs_columns_objects_and_treebanks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        'The first sentence ends. The "second" one asks? 1914 began well.\n\n'
        "Another paragraph here.\n"
    )
    (tmp_path / "b.tsv").write_text("label\ttext\n1\tA row of text.\n")
    lines = [{"text": "An object with text."}, {"tokens": ["Tokens", "do", "n't", "stay", "."]}]
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "d.conllu").write_text("# text = From a treebank.\n1\tFrom\n\n")

    found = denoiser_data.read(
        [tmp_path / name for name in ("a.txt", "b.tsv", "c.jsonl.gz", "d.conllu")]
    )
    assert found == [
        ["The first sentence ends.", 'The "second" one asks?', "1914 began well."],
        ["Another paragraph here."],
        ["A row of text."],
        ["An object with text."],
        ["Tokens don't stay."],
        ["From a treebank."],
    ]


def test_marks_of_tokenised_corpora_and_lines_without_words_go(tmp_path: Path) -> None:
    file = tmp_path / "wiki.txt"
    file.write_text(" = A heading = \n In 1 @,@ 000 <unk> houses , they lived .\n***\n- 3 -\n")
    assert denoiser_data.read([file]) == [["In 1,000 houses, they lived."]]


def test_a_sentence_met_twice_is_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "twice.txt"
    file.write_text("Said once before. New in this one.\nSaid once before.\n")
    assert denoiser_data.read([file, file]) == [["Said once before.", "New in this one."]]


def test_passages_hold_every_sentence_and_are_the_same_each_time() -> None:
    documents = [[f"Sentence {i} of document {d}." for i in range(9)] for d in range(40)]
    found = denoiser_data.passages(documents)

    assert found == denoiser_data.passages(documents)
    assert found != denoiser_data.passages(documents, seed=1)
    assert sum(passage.count("Sentence") for passage in found) == 360
    assert any(passage.count("Sentence") > 1 for passage in found)


@pytest.mark.parametrize("name", ["absent.txt", "picture.png", "empty.txt"])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    if name != "absent.txt":
        (tmp_path / name).write_text("\n")
    with pytest.raises(InvalidInput) as caught:
        denoiser_data.read([tmp_path / name])
    assert caught.value.subject == "data"
    assert caught.value.fix


def test_the_default_set_is_there_and_holds_nothing_that_may_not_train() -> None:
    shared_data(*denoiser_data.USABLE)
    assert not any(
        name.startswith(("sst2", "cola", "mrpc", "rte")) for name in denoiser_data.USABLE
    )
