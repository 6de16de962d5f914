"""Texts leave for training and questions; the cloud's answers come back restored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.generation import cloud as clouds
from bench.generation.cells import CELLS, CLEAR, Cell, Run
from bench.generation.cloud import Cloud, Written
from bench.generation.conversation import SETTINGS, Device
from bench.generation.webnlg import Entry
from sottovoce.cloud.job import Example, TrainingOptions
from tests.support import decoders
from tests.support.paths import MODELS

KNOWN = [
    Entry(
        f"Ramona Sitwell | birth Place | {place}; Ramona Sitwell | age | {age}",
        (f"Ramona Sitwell was born in {place} and is {age} years old.",),
        ("Ramona Sitwell", place),
    )
    for age, place in enumerate(["Utrecht", "Lyon", "Budapest", "Harrietstown"] * 3, 4711)
]
ASKED = [
    Entry("Gustav Lindqvist | lives In | Utrecht", ("He lives in Utrecht.",), ("Utrecht",)),
    Entry("Denise Okoro | lives In | Lyon", ("Denise Okoro lives there.",), ("Denise Okoro",)),
]


@dataclass(frozen=True)
class Faithful(Cloud):
    """A cloud that echoes its prompts and records its inputs."""

    told: list[Any]

    def written(
        self,
        examples: Sequence[Example],
        prompts: Sequence[str],
        options: TrainingOptions,
        *,
        make: bool = True,
    ) -> Written | None:
        self.told.extend([examples, prompts, options])
        return Written(tuple(prompts), 0.0, 0.0) if make else None


@pytest.fixture
def run(bundle_folder: Path) -> Run:
    """Over a cloud that only gives back."""
    device = Device.of(bundle_folder, MODELS)
    return Run(device, Faithful(Path(), Path(), []), KNOWN, ASKED, epochs=1)


def told(run: Run) -> tuple[list[Example], list[str], TrainingOptions]:
    assert isinstance(run.cloud, Faithful)
    examples, prompts, options = run.cloud.told[-3:]
    return examples, prompts, options


def test_the_telling_cells_come_first_and_none_is_left_out() -> None:
    assert [*map(str, CELLS[:5])] == [
        "clear",
        "names",
        "content balanced",
        "PCT2T balanced",
        "T2T balanced",
    ]
    plain = {cell.policy for cell in CELLS if not cell.reconstruction}
    assert plain == {CLEAR, *SETTINGS}
    assert {cell.policy for cell in CELLS if cell.reconstruction} == {*SETTINGS}
    assert len(CELLS) == 2 * len(SETTINGS) + 1


def test_facts_and_text_of_an_example_leave_under_one_map(run: Run) -> None:
    run.texts(Cell("names"))
    examples, prompts, options = told(run)
    assert (options.task, options.reconstruction, options.epochs) == ("generation", False, 1)
    assert len(examples) == len(KNOWN)
    for entry, example in zip(KNOWN, examples, strict=True):
        surrogate = example.text.partition(" | ")[0]
        assert example.text.count(surrogate) == 2
        assert surrogate != "Ramona Sitwell"
        assert example.output.startswith(surrogate)
        assert not any(name in example.text + example.output for name in entry.entities)
        assert "\n" not in example.text + example.output
    assert not any(name in prompt for name in ("Gustav", "Okoro") for prompt in prompts)


def test_what_comes_back_is_turned_back_and_kept_beside_what_was_written(run: Run) -> None:
    texts = run.texts(Cell("names"))
    assert texts is not None
    assert texts.written == tuple(told(run)[1])
    assert all(entry.entities[0] in back for entry, back in zip(ASKED, texts.restored, strict=True))
    assert not any(
        entry.entities[0] in out for entry, out in zip(ASKED, texts.written, strict=True)
    )
    assert run.texts(Cell("names"), make=False) is None


def test_clear_text_leaves_as_it_is(run: Run) -> None:
    texts = run.texts(Cell(CLEAR))
    assert texts is not None
    examples, prompts, _ = told(run)
    assert [(e.text, e.output) for e in examples] == [(e.facts, e.texts[0]) for e in KNOWN]
    assert prompts == [entry.facts for entry in ASKED]
    assert texts.restored == texts.written


def test_reconstruction_brings_plain_tokens_and_changes_nothing_else(run: Run) -> None:
    run.texts(Cell("content strong"))
    without, prompts, _ = told(run)
    run.texts(Cell("content strong", reconstruction=True))
    examples, same_prompts, options = told(run)
    assert options.reconstruction
    assert options.plain_tokens == 40
    assert same_prompts == prompts
    words = run.device.bundle.words
    differ = 0
    for one, other in zip(examples, without, strict=True):
        assert (one.text, one.output) == (other.text, other.output)
        assert not other.plain_tokens
        assert len(one.plain_tokens) == len(one.plain_token_ids) == 40
        differ += sum(
            word != words[i] for word, i in zip(one.plain_tokens, one.plain_token_ids, strict=True)
        )
    # With noise of their own: at `strong` most are others.
    assert differ > 20 * len(examples)


def test_a_decoder_learns_is_asked_once_and_what_it_wrote_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = Cloud(decoders.save(tmp_path / "tiny"), tmp_path / "kept")
    examples = [Example(entry.facts, output=entry.texts[0]) for entry in KNOWN]
    prompts, options = (
        [entry.facts for entry in ASKED],
        TrainingOptions(task="generation", epochs=1),
    )
    monkeypatch.setattr(clouds, "MOST", 6)
    assert cloud.written(examples, prompts, options, make=False) is None
    written = cloud.written(examples, prompts, options)
    assert written is not None
    assert len(written.answers) == len(prompts)
    assert len({*written.answers}) > 1  # each of its own prompt
    assert [path.suffix for path in (tmp_path / "kept").iterdir()] == [".json"]

    monkeypatch.setattr(clouds, "train_generation", lambda *_, **__: pytest.fail("trained again"))
    assert Cloud(cloud.decoder, cloud.folder).written(examples, prompts, options) == written
    for other in ((examples[1:], prompts), (examples, prompts[:1])):
        assert cloud.written(*other, options, make=False) is None


def test_training_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud(decoders.save(tmp_path / "tiny"), tmp_path / "kept")
    examples = [Example(entry.facts, output=entry.texts[0]) for entry in KNOWN]
    options = TrainingOptions(task="generation", epochs=2, batch_size=2)
    monkeypatch.setattr(clouds, "MOST", 4)
    train, begun = clouds.train_generation, []

    def killed(*given: Any, **named: Any) -> Any:
        steps = []

        def stop(progress: Any) -> None:
            steps.append(progress.step)
            if not begun and progress.step == 6:  # an epoch is on disk
                raise KeyboardInterrupt

        try:
            return train(*given, **{**named, "watch": clouds.Watch(stop)})
        finally:
            begun.append(steps)

    monkeypatch.setattr(clouds, "train_generation", killed)
    with pytest.raises(KeyboardInterrupt):
        cloud.written(examples, ["a"], options)
    assert cloud.written(examples, ["a"], options, make=False) is None
    assert cloud.written(examples, ["a"], options) is not None
    first, second = begun
    assert first[-1] == 6
    assert 1 not in second
    assert second[-1] > 6
