"""Examples are checked, split and turned into ids without losing track of a word."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from sottovoce.cloud.job import Example, TrainingOptions, check_labels
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.batches import (
    SUBTOKENS,
    Dataset,
    Encoded,
    collate,
    encode,
    split,
)
from sottovoce.core.bundle.encoder import MAX_TOKENS
from sottovoce.core.errors import NotReady
from tests.support.backbones import tiny_bert
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({"a": 3, "b": 3}, "holds 6 examples"),
        ({"a": 20}, "every example has the label 'a'"),
        ({"a": 9, "rare": 1}, "'rare'"),
        ({f"label {i}": 2 for i in range(5)}, "at most 4"),
    ],
)
def test_examples_that_cannot_train_are_refused_with_a_fix(
    counts: dict[str, int], says: str
) -> None:
    with pytest.raises(NotReady, match=says) as caught:
        check_labels(Counter(counts), most=4)
    assert caught.value.fix


def test_labels_are_in_one_order() -> None:
    assert check_labels(Counter({"b": 4, "a": 4})) == ("a", "b")


def test_every_label_is_held_out_in_its_share() -> None:
    targets = [0] * 100 + [1] * 20 + [2] * 3 + [3] * 2
    training, held = split(targets, seed=1)

    assert sorted(training + held) == list(range(125))
    assert Counter(targets[i] for i in held) == {0: 15, 1: 3, 2: 1}
    assert split(targets, seed=1) == (training, held)
    assert split(targets, seed=2) != (training, held)


@pytest.mark.parametrize("family", ["bert", "decoder", "encoder_decoder", "minilm"])
def test_plain_tokens_and_text_are_found_again_in_the_sub_tokens(
    family: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if family == "minilm":
        name = "default"
    elif family == "bert":
        name = str(tiny_bert(tmp_path / "bert"))
    else:
        name = str(request.getfixturevalue(f"tiny_{family}"))
    tokenizer = backbone.load(name).tokenizer
    plain = ("garden", "coffee", "unbelievably")
    example = Example("the dog ran home", "x", plain, (7, 8, 9))

    (row,) = encode(tokenizer, [example.text], [example])

    assert [number for _, number in row.plain] == [7, 8, 9]
    pieces = [tokenizer.decode([i]).strip(" #") for i in row.ids]
    for (position, _), word in zip(row.plain, plain, strict=True):
        assert word.startswith(pieces[position])
        assert pieces[position]
        assert not row.text[position]
    said = "".join(piece for piece, of_text in zip(pieces, row.text, strict=True) if of_text)
    assert said == "thedogranhome"


def test_without_plain_tokens_only_special_tokens_are_outside_the_text(tmp_path: Path) -> None:
    tokenizer = backbone.load(str(tiny_bert(tmp_path / "bert"))).tokenizer
    (row,) = encode(tokenizer, ["tree and soup"])
    assert row.text == (False, True, True, True, False)
    assert row.plain == ()


def test_collate_pads_and_marks() -> None:
    rows = [
        Encoded((5, 6, 7), (False, True, True), ((0, 40),)),
        Encoded((8,), (False,)),
    ]
    batch = collate(rows, pad=1, vocabulary={40: 2})

    assert batch.ids.tolist() == [[5, 6, 7], [8, 1, 1]]
    assert batch.attention.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.plain.tolist() == [[2, -100, -100], [-100, -100, -100]]
    # A text without a known sub-token pools what there is, and never divides by 0.
    assert batch.text.tolist() == [[0, 1, 1], [1, 0, 0]]
    assert torch.equal(collate(rows, pad=1).plain, torch.full((2, 3), -100))


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_a_text_that_is_cut_keeps_what_stands_around_it(
    family: str, families: dict[str, Path]
) -> None:
    tokenizer = backbone.load(str(families[family])).tokenizer
    long, short, cue = "tree " * 2_000, "tree", (7, 8)
    (whole,) = encode(tokenizer, [short])
    (cut,) = encode(tokenizer, [long])
    assert len(cut.ids) == MAX_TOKENS
    # Special tokens stay at both ends, outside of the text.
    before, after = whole.text.index(True), whole.text[::-1].index(True)
    assert cut.ids[:before] == whole.ids[:before]
    assert cut.ids[len(cut.ids) - after :] == whole.ids[len(whole.ids) - after :]
    assert cut.text == (*[False] * before, *[True] * (256 - before - after), *[False] * after)

    # The cue stands behind all of it, and its last token alone for the text.
    for text, alone in ((long, cut), (short, whole)):
        (row,) = encode(tokenizer, [text], cue=cue)
        assert row.ids == (*alone.ids, *cue)
        assert row.text == (*[False] * (len(row.ids) - 1), True)


def test_plain_tokens_take_no_room_from_a_long_text(families: dict[str, Path]) -> None:
    tokenizer = backbone.load(str(families["bert"])).tokenizer
    plain = ("at", "no", "up") * 12  # two sub-tokens each, which is what there is room for
    assert len(tokenizer.tokenize(" ".join(plain))) == SUBTOKENS * len(plain)
    example = Example("tree " * 2_000, "x", plain, tuple(range(len(plain))))
    other = Example("soup", "x", plain[:1], (0,))
    (alone,) = encode(tokenizer, [example.text])
    fronted, _ = encode(tokenizer, [example.text, other.text], [example, other])

    assert sum(fronted.text) == sum(alone.text)
    assert [number for _, number in fronted.plain] == list(range(len(plain)))
    assert len(fronted.ids) == MAX_TOKENS + SUBTOKENS * len(plain)


def test_a_data_set_holds_every_example_with_and_without_its_plain_tokens(tmp_path: Path) -> None:
    tokenizer = backbone.load(str(tiny_bert(tmp_path / "bert"))).tokenizer
    rows = examples(30, plain=4)
    options = TrainingOptions(reconstruction=True, plain_tokens=4)
    data = Dataset.of(rows, options, tokenizer)

    assert [data.labels[i] for i in data.targets.tolist()] == [row.label for row in rows]
    assert sorted(data.train + data.held) == list(range(30))
    assert set(data.vocabulary) == {number for row in rows for number in row.plain_token_ids}
    assert sorted(data.vocabulary.values()) == list(range(len(data.vocabulary)))
    alone, fronted = data.batch([3, 4]), data.batch([3, 4], plain=True)
    assert not (alone.plain >= 0).any()
    assert (fronted.plain >= 0).sum(1).tolist() == [4, 4]
    assert fronted.ids.shape[1] > alone.ids.shape[1]

    off = Dataset.of(rows, TrainingOptions(), tokenizer)
    assert off.vocabulary == {}
    assert torch.equal(off.batch([3, 4], plain=True).ids, alone.ids)
