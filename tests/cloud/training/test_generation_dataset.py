"""What is learnt is the output and nothing else, and what is too long loses its input."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models import decoder
from sottovoce.cloud.models.chat import Chat, Turn
from sottovoce.cloud.training.generation_trainer import IGNORE, GenerationDataset, encode
from sottovoce.core.errors import NotReady
from tests.support import decoders
from tests.support.written import WORDS, written

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
