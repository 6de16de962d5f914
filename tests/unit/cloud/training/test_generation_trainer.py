"""Generation training learns, resumes exactly and keeps the right files."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import Example, Progress, Stopped, TrainingOptions, Watch
from sottovoce.cloud.models import adapters, decoder
from sottovoce.cloud.models.chat import Chat, Turn
from sottovoce.cloud.models.decoder import TextGenerator
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.models.rows import run
from sottovoce.cloud.training.generation_trainer import (
    IGNORE,
    RECIPE,
    GenerationDataset,
    GenerationObjective,
    WrittenBatch,
    encode,
    train_generation,
)
from sottovoce.core.errors import NotReady
from tests.support import decoders
from tests.support.written import WORDS, written


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A decoder's folder."""
    return str(decoders.save(tmp_path_factory.mktemp("decoders") / "tiny"))


def test_a_form_is_learnt_and_written(tiny: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    options = TrainingOptions(
        method="full", epochs=8, batch_size=8, learning_rate=4e-3, seed=1, task="generation"
    )
    result = train_generation(
        written(64),
        options,
        decoder.load(tiny),
        tmp_path / "a",
        watch=Watch(seen.append),
    )

    assert result.labels == ()
    assert result.held_out == 10
    assert seen[0].loss > 6  # of 640 tokens, log 640 is 6.5
    assert seen[-1].loss < 1
    assert seen[-1].held_out_accuracy == result.held_out_accuracy > 0.9

    opened, adapter = decoder.load(tiny), adapters.load(result.folder)
    row = adapter.method.row(opened.stack, adapter.tensors)
    right = 0
    for example in written(10, seed=9):
        ids = opened.chat.prompt([Turn("user", example.text)])
        answer: list[int] = []
        with torch.no_grad():
            while len(answer) < 12 and not opened.ends.intersection(answer):
                given = torch.tensor([[*ids, *answer]])
                states = run(opened.stack, given, torch.ones_like(given), [row])
                answer.append(int(opened.logits(states[0, -1], row.weights).argmax()))
        right += opened.chat.text(answer) == example.output
    # Of six places one is right by chance: 8 of 10 has a probability below 2e-5.
    assert right >= 8


@pytest.mark.parametrize(("method", "rate"), [("lora", 1e-2), ("prompt", 5e-2), ("prefix", 5e-2)])
def test_every_method_lowers_the_loss(method: str, rate: float, tiny: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    options = TrainingOptions(
        method=method, epochs=4, batch_size=8, learning_rate=rate, seed=1, task="generation"
    )
    train_generation(
        written(40),
        options,
        decoder.load(tiny),
        tmp_path / "a",
        watch=Watch(seen.append),
    )
    # The stack is random and frozen, and so is what reads it: there is little room.
    assert seen[-1].loss < seen[0].loss - 0.03


def test_a_stopped_and_resumed_run_gives_the_same_weights(tiny: str, tmp_path: Path) -> None:
    options = TrainingOptions(
        reconstruction=True, plain_tokens=4, epochs=3, batch_size=8, seed=5, task="generation"
    )
    learn = partial(train_generation, written(30, plain=4), options)
    whole = learn(decoder.load(tiny), tmp_path / "whole")
    file = tmp_path / "checkpoints" / "last.safetensors"
    for stop_after in (0, 2, 6):  # before the first score, in the first epoch and after it
        go_on = repeat(False, stop_after)
        with pytest.raises(Stopped):
            learn(
                decoder.load(tiny),
                tmp_path / "parts",
                resume=file,
                watch=Watch(should_stop=partial(next, go_on, True)),
            )
    seen: list[Progress] = []
    parts = learn(decoder.load(tiny), tmp_path / "parts", resume=file, watch=Watch(seen.append))

    assert seen[0].step > 1
    assert seen[-1].reconstruction_loss > 0
    one, other = (load_file(r.folder / "adapter_model.safetensors") for r in (whole, parts))
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], atol=0, rtol=0)
    assert whole.held_out_accuracy == parts.held_out_accuracy


def test_what_is_kept_says_which_decoder_and_no_text(tiny: str, tmp_path: Path) -> None:
    options = TrainingOptions(
        reconstruction=True, plain_tokens=2, epochs=1, batch_size=16, task="generation"
    )
    opened = decoder.load(tiny)
    train_generation(
        written(16, plain=2), options, opened, tmp_path / "a", origin={"job": "j"}, recipe=RECIPE
    )

    facts = json.loads((tmp_path / "a" / "adapter.json").read_text())
    assert facts["task"] == "generation"
    assert facts["backbone"] == {"name": "tiny", "sha256": opened.backbone.sha256}
    assert sorted(f.name for f in (tmp_path / "a").iterdir()) == [
        "adapter.json",
        "adapter_model.safetensors",
    ]
    kept = load_file(tmp_path / "a" / "adapter_model.safetensors")
    assert not any("reconstruction" in name or "output" in name for name in kept)
    assert "Paris" not in json.dumps(facts)


@pytest.mark.skipif(not find_spec("bitsandbytes"), reason="QLoRA needs bitsandbytes")
def test_over_four_bits_the_same_kind_of_adapter_is_learnt(tmp_path: Path) -> None:
    folder = str(decoders.save(tmp_path / "wide", hidden_size=128, intermediate_size=256))
    seen: list[Progress] = []
    options = TrainingOptions(
        method="qlora", epochs=4, batch_size=8, learning_rate=1e-2, seed=1, task="generation"
    )
    spent = decoder.load(folder, quantized=True)
    train_generation(written(40), options, spent, tmp_path / "a", watch=Watch(seen.append))
    assert seen[-1].loss < 0.7 * seen[0].loss

    adapter, opened = adapters.load(tmp_path / "a"), decoder.load(folder)
    assert adapter.backbone_sha256 == opened.backbone.sha256
    assert adapter.method.row(opened.stack, adapter.tensors).updates is not None


TEMPLATES = pytest.mark.parametrize("template", [decoders.CHATML, None])


@TEMPLATES
def test_the_loss_is_at_the_outputs_tokens_and_their_end(template: str | None) -> None:
    tokenizer = decoders.tokenizer(template=template)
    chat = Chat.of(tokenizer)
    example = Example("Where is the train?", output="The train is in Paris.")

    row = encode(chat, example, 200)

    prompt = chat.prompt([Turn("user", example.text)])
    learnt = [token for token in row.targets if token != IGNORE]
    assert learnt == chat.answer(example.output)
    assert learnt[-1] == chat.end
    # Read is all but the last, each beside the token that follows it.
    assert list(row.ids) == [*prompt, *learnt[:-1]]
    assert list(row.targets) == [IGNORE] * (len(prompt) - 1) + learnt
    assert row.plain == ()


@TEMPLATES
def test_plain_tokens_stand_in_front_and_are_named_at_their_ends(template: str | None) -> None:
    tokenizer = decoders.tokenizer(template=template)
    chat = Chat.of(tokenizer)
    example = written(1, plain=3)[0]

    row, alone = (encode(chat, example, 200, plain=plain) for plain in (True, False))

    front = len(row.ids) - len(alone.ids)
    assert tokenizer.decode(row.ids[:front]) == " ".join(example.plain_tokens) + "\n"
    assert (row.ids[front:], row.targets[front:]) == (alone.ids, alone.targets)
    assert set(row.targets[:front]) == {IGNORE}
    assert tuple(word for _, word in row.plain) == example.plain_token_ids
    for place, (end, word) in enumerate(row.plain):
        read = tokenizer.decode(row.ids[: end + 1])
        assert read == " ".join(WORDS[i] for i in example.plain_token_ids[: place + 1])
        assert read.endswith(WORDS[word])


def test_plain_tokens_stand_after_what_begins_every_text() -> None:
    tokenizer = decoders.tokenizer(template=None)
    tokenizer.add_special_tokens({"bos_token": "<|im_start|>"})
    tokenizer.backend_tokenizer.post_processor = decoders.starting_with("<|im_start|>", 1)

    row = encode(Chat.of(tokenizer), written(1, plain=2)[0], 200, plain=True)

    assert row.ids[0] == 1
    assert row.ids.count(1) == 1
    assert row.plain[0][0] > 0


@TEMPLATES
@pytest.mark.parametrize("plain", [False, True])
def test_long_inputs_are_cut_and_outputs_are_not(template: str | None, plain: bool) -> None:
    chat = Chat.of(decoders.tokenizer(template=template))
    short = written(1, plain=3)[0]
    example = Example(
        "It rained on the café at noon. " * 90,
        plain_tokens=short.plain_tokens,
        plain_token_ids=short.plain_token_ids,
        output=short.output,
    )

    row = encode(chat, example, 120, plain=plain)

    assert 110 < len(row.ids) <= 120
    answer = chat.answer(example.output)
    assert list(row.targets[-len(answer) :]) == answer
    # The conversation around the input is whole: the same tokens lead up to the answer.
    head = chat.prompt([Turn("user", "")])
    at = len(row.ids) - len(answer) + 1
    closing = chat.tokenizer("Assistant:\n" if template is None else "assistant\n")["input_ids"]
    assert list(row.ids[at - len(closing) : at]) == closing == head[-len(closing) :]
    assert "It rained on the café" in chat.tokenizer.decode(row.ids)


def test_an_output_that_fits_nowhere_is_cut_without_an_end() -> None:
    chat = Chat.of(decoders.tokenizer())

    row = encode(chat, Example("short", output="The bread is good. " * 90), 60)

    learnt = [token for token in row.targets if token != IGNORE]
    assert len(row.ids) == 60
    assert len(learnt) > 20
    assert learnt == chat.answer("The bread is good. " * 90)[: len(learnt)]
    assert chat.end not in learnt


def test_rows_are_padded_and_plain_tokens_become_targets(tmp_path: Path) -> None:
    opened = decoder.load(str(decoders.save(tmp_path / "tiny")))
    examples = [*written(11, plain=2), Example("a", "", ("a", "b"), (7, 2), "It rained at noon.")]
    options = TrainingOptions(reconstruction=True, plain_tokens=2, task="generation")

    data = GenerationDataset.of(examples, options, opened)
    batch = data.batch([0, 11], plain=True)

    assert sorted([*data.train, *data.held]) == list(range(12))
    assert len(data.held) == 2
    for row, example in enumerate((0, 11)):
        made = data.fronted[example]
        n = len(made.ids)
        assert batch.ids[row, :n].tolist() == list(made.ids)
        assert batch.attention[row].sum() == n
        assert (batch.targets[row, n:] == IGNORE).all()
        named = batch.plain[row][batch.plain[row] != IGNORE].tolist()
        assert named == [data.vocabulary[i] for i in examples[example].plain_token_ids]
    assert (data.batch([0, 11]).plain == IGNORE).all()
    assert data.overhead > 0


def test_too_few_examples_are_refused(tmp_path: Path) -> None:
    opened = decoder.load(str(decoders.save(tmp_path / "tiny")))
    with pytest.raises(NotReady, match="at least 8"):
        GenerationDataset.of(written(7), TrainingOptions(task="generation"), opened)


Made = tuple[TextGenerator, GenerationDataset]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A model with a reconstruction head, and 12 examples with three plain tokens each."""
    opened = decoder.load(str(decoders.save(tmp_path / "tiny")))
    options = TrainingOptions(reconstruction=True, plain_tokens=3, task="generation")
    data = GenerationDataset.of(written(12, plain=3), options, opened)
    torch.manual_seed(0)
    return TextGenerator(opened, Lora(), vocabulary=len(data.vocabulary)).eval(), data


def test_it_is_the_loss_that_the_models_makers_compute(made: Made, tmp_path: Path) -> None:
    model, data = made
    whole = decoder.load(str(decoders.save(tmp_path / "again"))).model
    for row in range(3):
        batch = data.batch([row])
        losses = GenerationObjective(model)(batch)
        # They shift labels themselves: each stands at its own token.
        labels = F.pad(batch.targets, (1, 0), value=-100)
        ids = torch.cat([batch.ids, batch.targets[:, -1:]], 1)
        wanted = whole(input_ids=ids, labels=labels).loss
        assert losses.reconstruction is None
        torch.testing.assert_close(losses.total[0], wanted)


def test_inputs_are_read_and_never_learnt(made: Made) -> None:
    model, data = made
    batch = data.batch(range(4))
    logits = model._decoder.logits(model.states(batch.ids, batch.attention))  # (B, n, V)
    own = F.cross_entropy(logits.mT, batch.targets, reduction="none", ignore_index=-100)
    wanted = own.sum(1) / (batch.targets >= 0).sum(1)
    torch.testing.assert_close(GenerationObjective(model)(batch).task, wanted)


def test_logits_made_piece_by_piece_give_the_same_gradients(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = made
    batch = data.batch(range(6), plain=True)
    found = []
    for rows in (3, 10_000):
        monkeypatch.setattr(decoder, "_ROWS", rows)
        losses = GenerationObjective(model, weight=0.3)(batch)
        found.append(torch.autograd.grad(losses.total.mean(), list(model.trained().values())))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_plain_tokens_are_named_from_the_states_at_their_ends(made: Made) -> None:
    model, data = made
    batch = data.batch(range(6), plain=True)
    losses = GenerationObjective(model, weight=0.3)(batch)
    states, plain = model.states(batch.ids, batch.attention), batch.plain >= 0
    assert model.reconstruction is not None
    wanted = F.cross_entropy(model.reconstruction(states[plain]), batch.plain[plain])
    assert losses.reconstruction is not None
    torch.testing.assert_close(losses.reconstruction.mean(), wanted)
    torch.testing.assert_close(losses.total, losses.task + 0.3 * losses.reconstruction)


def test_no_examples_loss_depends_on_another(made: Made) -> None:
    model, data = made
    batch = data.batch([0, 1, 2], plain=True)
    together = GenerationObjective(model, weight=0.3)(batch)
    for row in range(3):
        one = WrittenBatch(*(getattr(batch, f.name)[row : row + 1] for f in fields(batch)))
        alone = GenerationObjective(model, weight=0.3)(one)
        torch.testing.assert_close(together.total[row], alone.total[0], atol=1e-5, rtol=1e-5)
