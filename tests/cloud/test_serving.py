"""One model answers for many adapters, and for each as if it were alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cloud import backbone
from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.serving import Predictor
from sottovoce.cloud.train import train
from sottovoce.edge.errors import BundleMismatch, DataLoss

from .cloud_kit import environment, examples, tiny_bert

TEXTS = [row.text for row in examples(9, seed=4)]
IN_A_NEW_PROCESS = """
import json, sys
from pathlib import Path
from sottovoce.cloud import backbone
from sottovoce.cloud.serving import Predictor
predictor = Predictor(backbone.load(sys.argv[1]))
answers = [predictor.submit(Path(sys.argv[2]), text) for text in json.loads(sys.argv[3])]
print(json.dumps([dict(answer.result()) for answer in answers]))
"""


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny encoder."""
    return str(tiny_bert(tmp_path_factory.mktemp("backbones") / "bert"))


@pytest.fixture(scope="module")
def folders(bert: str, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three adapters that differ: of other labels, seeds, and numbers of classes."""
    made = []
    jobs = tmp_path_factory.mktemp("jobs")
    choices = (("garden", "office"), ("garden", "kitchen", "office"), ("kitchen", "office"))
    for i, topics in enumerate(choices):
        options = TrainingOptions(epochs=2, batch_size=8, learning_rate=2e-2, seed=i)
        rows = examples(24, topics=topics, seed=i)
        made.append(train(rows, options, backbone.load(bert), jobs / f"j{i}" / "adapter").folder)
    return made


@pytest.fixture
def predictor(bert: str) -> Iterator[Predictor]:
    """A predictor with room for two adapters."""
    predictor = Predictor(backbone.load(bert), capacity=2)
    yield predictor
    predictor.close()


def alone(bert: str, folder: Path, texts: list[str]) -> list[dict[str, float]]:
    """Each text by itself, from a model that never saw another adapter."""
    predictor = Predictor(backbone.load(bert))
    found = [dict(predictor.submit(folder, text).result()) for text in texts]
    predictor.close()
    return found


def test_a_mixed_batch_answers_as_each_adapter_alone(
    bert: str, folders: list[Path], predictor: Predictor
) -> None:
    for folder in folders:  # loaded one by one, more than there is room for
        predictor.submit(folder, TEXTS[0]).result()
    asked = [(folders[i % 3], text) for i, text in enumerate(TEXTS)]
    waiting = [predictor.submit(folder, text) for folder, text in asked]
    answers = [dict(answer.result()) for answer in waiting]
    for (folder, text), answer in zip(asked, answers, strict=True):
        (expected,) = alone(bert, folder, [text])
        assert answer == pytest.approx(expected, abs=1e-5)


def test_the_adapters_do_differ(bert: str, folders: list[Path]) -> None:
    first, second, third = (alone(bert, folder, TEXTS[:1])[0] for folder in folders)
    assert set(first) != set(second) != set(third)
    assert first["office"] != pytest.approx(second["office"], abs=1e-3)


def test_probabilities_are_sorted_and_sum_to_one(folders: list[Path], predictor: Predictor) -> None:
    scores = predictor.submit(folders[1], TEXTS[0]).result()
    values = [probability for _, probability in scores]
    assert values == sorted(values, reverse=True)
    assert sum(values) == pytest.approx(1)
    assert {label for label, _ in scores} == {"garden", "kitchen", "office"}


def test_a_reloaded_adapter_gives_identical_answers_in_a_new_process(
    bert: str, folders: list[Path]
) -> None:
    here = alone(bert, folders[0], TEXTS)
    there = subprocess.run(
        [sys.executable, "-c", IN_A_NEW_PROCESS, bert, folders[0], json.dumps(TEXTS)],
        capture_output=True,
        check=True,
        env=environment(),
        text=True,
    )
    for mine, theirs in zip(here, json.loads(there.stdout), strict=True):
        assert theirs == pytest.approx(mine, abs=1e-6)


def test_the_least_recently_used_adapter_leaves(folders: list[Path], predictor: Predictor) -> None:
    expected = [dict(predictor.submit(folder, TEXTS[0]).result()) for folder in folders]
    assert list(predictor._loaded) == folders[1:]
    again = [dict(predictor.submit(folder, TEXTS[0]).result()) for folder in folders]
    for before, after in zip(expected, again, strict=True):
        assert after == pytest.approx(before, abs=1e-6)


def test_one_bad_adapter_spoils_no_other_answer(
    folders: list[Path], predictor: Predictor, tmp_path: Path
) -> None:
    bad = predictor.submit(tmp_path / "none" / "adapter", TEXTS[0])
    good = predictor.submit(folders[0], TEXTS[0])
    with pytest.raises(DataLoss):
        bad.result()
    assert len(good.result()) == 2


def test_an_adapter_of_another_backbone_is_refused(folders: list[Path], tmp_path: Path) -> None:
    predictor = Predictor(backbone.load(str(tiny_bert(tmp_path / "other", seed=1))))
    with pytest.raises(BundleMismatch, match="another backbone"):
        predictor.submit(folders[0], TEXTS[0]).result()
    predictor.close()


def test_closing_answers_what_was_asked(bert: str, folders: list[Path]) -> None:
    predictor = Predictor(backbone.load(bert), batch=4)
    answers = [predictor.submit(folders[0], text) for text in TEXTS]
    predictor.close()
    assert all(answer.done() for answer in answers)


def test_a_text_the_tokenizer_does_not_know_still_gets_an_answer(
    folders: list[Path], predictor: Predictor
) -> None:
    scores = predictor.submit(folders[0], "\u200b").result()
    assert sum(p for _, p in scores) == pytest.approx(1)
