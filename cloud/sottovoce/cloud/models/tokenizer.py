"""Opens a tokenizer as its tokenizer.json has it, whatever family the model is of.

Why it is here: of some families `transformers` 5 takes the words alone from that file, and how a
text is cut from its own code; 4.57 takes the file. The same folder must mean the same tokens to
trainers and servers on either, and what a tokenizer loses must be seen by who refuses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

__all__ = ["load"]


def load(folder: Path) -> Any:
    """The tokenizer that lies beside a model; code that does, too, is not run.

    Args:
        folder: with tokenizer.json, or what a slow tokenizer is read from.

    Raises:
        Exception: whatever its readers raise at files that are not what they seem.
    """
    found = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    file = folder / "tokenizer.json"
    if file.is_file() and getattr(found, "is_fast", False):
        told = Tokenizer.from_file(str(file))
        if _parts(found.backend_tokenizer) != _parts(told):
            return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    return found


def _parts(tokenizer: Tokenizer) -> list[bytes | None]:
    """What decides how a text is cut and put together again, each as the file would have it."""
    parts = (
        tokenizer.model,
        tokenizer.normalizer,
        tokenizer.pre_tokenizer,
        tokenizer.decoder,
    )
    return [None if part is None else part.__getstate__() for part in parts]
