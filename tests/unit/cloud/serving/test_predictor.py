"""One model answers for many adapters, and for each as if it were alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.methods import Prompt
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.cloud.training.trainer import train
from sottovoce.core.bundle.manifest import sha256
from sottovoce.core.errors import BundleMismatch, DataLoss, InvalidInput, SottovoceError
from tests.support.backbones import tiny_bert
from tests.support.examples import examples
from tests.support.serving import ADAPTERS, all_methods, make, predicting, served

TEXTS = [row.text for row in examples(9, seed=4)]


@pytest.fixture(scope="module")
def trained(bert: str, tmp_path_factory: pytest.TempPathFactory) -> list[AdapterFiles]:
    """Three adapters that differ: of other labels, seeds, and numbers of classes."""
    made = []
    jobs = tmp_path_factory.mktemp("jobs")
    choices = (("garden", "office"), ("garden", "kitchen", "office"), ("kitchen", "office"))
    for i, topics in enumerate(choices):
        options = TrainingOptions(epochs=2, batch_size=8, learning_rate=2e-2, seed=i)
        rows = examples(24, topics=topics, seed=i)
        result = train(rows, options, backbone.load(bert), jobs / f"adapter-{i}")
        made.append(AdapterFiles.of(result.folder))
    return made


@pytest.fixture
def predictor(bert: str) -> Iterator[Predictor]:
    """A predictor."""
    with predicting(bert) as predictor:
        yield predictor


def alone(bert: str, files: AdapterFiles, texts: list[str]) -> list[dict[str, float]]:
    """Each text by itself, from a model that never saw another adapter."""
    with predicting(bert) as predictor:
        return [dict(predictor.submit(files, text).result()) for text in texts]


def test_a_mixed_batch_answers_as_each_adapter_alone(
    bert: str, trained: list[AdapterFiles], predictor: Predictor
) -> None:
    asked = [(trained[i % 3], text) for i, text in enumerate(TEXTS)]
    waiting = [predictor.submit(files, text) for files, text in asked]
    answers = [dict(answer.result()) for answer in waiting]
    for (files, text), answer in zip(asked, answers, strict=True):
        (expected,) = alone(bert, files, [text])
        assert answer == pytest.approx(expected, abs=1e-5)


def test_probabilities_are_sorted_and_sum_to_one(
    trained: list[AdapterFiles], predictor: Predictor
) -> None:
    scores = predictor.submit(trained[1], TEXTS[0]).result()
    values = [probability for _, probability in scores]
    assert values == sorted(values, reverse=True)
    assert sum(values) == pytest.approx(1)
    assert {label for label, _ in scores} == {"garden", "kitchen", "office"}


def test_memory_for_fewer_adapters_gives_the_same_answers(
    bert: str, trained: list[AdapterFiles]
) -> None:
    size = sum(file.stat().st_size for file in trained[0].folder.glob("*.safetensors"))
    metrics = Metrics()
    with predicting(bert, memory=2 * size, metrics=metrics) as predictor:
        for _ in range(2):
            for files in trained:
                assert dict(predictor.submit(files, TEXTS[0]).result()) == pytest.approx(
                    alone(bert, files, TEXTS[:1])[0], abs=1e-6
                )
        value = metrics.registry.get_sample_value
        assert value("sottovoce_adapter_loads_total") == 6
        assert (value("sottovoce_adapter_evictions_total") or 0) >= 4
        assert (value("sottovoce_adapter_bytes") or 0) <= 2 * size


def test_one_bad_adapter_spoils_no_other_answer(
    trained: list[AdapterFiles], predictor: Predictor, tmp_path: Path
) -> None:
    with pytest.raises(DataLoss):
        predictor.submit(AdapterFiles(tmp_path / "none" / "adapter", "0"), TEXTS[0])
    assert len(predictor.submit(trained[0], TEXTS[0]).result()) == 2


def test_an_adapter_of_another_backbone_is_refused(
    trained: list[AdapterFiles], tmp_path: Path
) -> None:
    with (
        predicting(tiny_bert(tmp_path / "other", seed=1)) as predictor,
        pytest.raises(BundleMismatch, match="another backbone"),
    ):
        predictor.submit(trained[0], TEXTS[0]).result()


def test_a_text_the_tokenizer_does_not_know_still_gets_an_answer(
    trained: list[AdapterFiles], predictor: Predictor
) -> None:
    scores = predictor.submit(trained[0], "\u200b").result()
    assert sum(p for _, p in scores) == pytest.approx(1)


FAMILIES = ("bert", "qwen2", "t5", "llama", "mistral")


@pytest.mark.parametrize("family", FAMILIES)
def test_all_methods_in_one_batch_are_as_each_alone(
    family: str, families: dict[str, Path], tmp_path: Path
) -> None:
    made = all_methods(families[family], tmp_path)
    texts = [f"{text} {'salt ' * (5 * i % 17)}" for i, text in enumerate(TEXTS * 3)]
    asked = [(made[i % len(made)], text) for i, text in enumerate(texts)]
    with predicting(families[family]) as predictor:
        found = served(predictor, [(one.folder, text) for one, text in asked])
        for (one, text), row in zip(asked, found, strict=True):
            assert torch.allclose(row, one.logits(text), atol=1e-4), one.folder.parent.name
        # They do differ, and a second batch finds nothing of the first.
        shares = {tuple(one.logits(TEXTS[0]).softmax(-1).tolist()) for one in made}
        assert len(shares) == len(made)
        again = served(predictor, [(one.folder, text) for one, text in asked[:3]])
        for before, after in zip(found, again, strict=False):
            assert torch.allclose(before, after, atol=1e-4)


def test_the_reconstruction_head_is_not_served(families: dict[str, Path], tmp_path: Path) -> None:
    with predicting(families["bert"]) as predictor:
        for one in all_methods(families["bert"], tmp_path):
            head = sum(p.numel() for n, p in one.model.trained().items() if "reconstruction" in n)
            trained = sum(p.numel() for p in one.model.trained().values())
            adapter, release = predictor._adapters.acquire(one.files)
            assert head > 0
            assert adapter.bytes == 4 * (trained - head)
            release()


def test_bfloat16_answers_nearly_the_same(families: dict[str, Path], tmp_path: Path) -> None:
    made = all_methods(families["bert"], tmp_path)
    with predicting(families["bert"], dtype=torch.bfloat16) as predictor:
        found = served(predictor, [(one.folder, TEXTS[0]) for one in made])
    for one, row in zip(made, found, strict=True):
        assert row.dtype == torch.float32
        assert torch.allclose(row, one.logits(TEXTS[0]), atol=0.15)


@pytest.mark.parametrize("name", ["lora", "prompt", "prefix", "full"])
def test_parameters_that_do_not_fit_fail_before_they_meet_others(
    name: str, families: dict[str, Path], tmp_path: Path
) -> None:
    one = make(families["bert"], tmp_path / "job" / "adapter", ADAPTERS[name])
    file = one.folder / "adapter_model.safetensors"
    first, *others = load_file(file).items()
    save_file({first[0]: first[1][..., :-1].contiguous(), **dict(others)}, file)
    described = one.folder / "adapter.json"
    facts = json.loads(described.read_bytes())
    facts["sha256"][file.name] = sha256(file)
    described.write_text(json.dumps(facts))
    with (
        predicting(families["bert"]) as predictor,
        pytest.raises(SottovoceError, match="does not fit"),
    ):
        predictor.submit(one.files, TEXTS[0])


def test_a_row_that_cannot_be_run_fails_alone(families: dict[str, Path], tmp_path: Path) -> None:
    # Longer than the backbone has positions for, which training on short texts does not notice.
    long = make(families["bert"], tmp_path / "long" / "adapter", Prompt(290))
    good = make(families["bert"], tmp_path / "good" / "adapter", Prompt(289))
    with predicting(families["bert"]) as predictor:
        text = "tree leaf soil rose grass seed"
        answers = [
            predictor.submit(files, t)
            for files, t in ((long.files, text * 2), (good.files, "tree"), (long.files, "tree"))
        ]
        with pytest.raises(InvalidInput):
            answers[0].result(60)
        for answer, one in ((answers[1], good), (answers[2], long)):
            shares = one.logits("tree").softmax(-1).tolist()
            expected = sorted(shares, reverse=True)
            assert [p for _, p in answer.result(60)] == pytest.approx(expected, abs=1e-4)
