"""The backbone on the device: it runs without torch, on clear text, with any adapter.

A text that the device answers itself need not be sent. The cloud writes these files
(`sottovoce.models.encoder`) and the device reads them with the same module. The table of token
embeddings, half of a small backbone, stays in its file, and a text reads one row a token. The rest
is one ONNX graph for all adapters, which takes an adapter's numbers as inputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.tokenizer import Tokenizer
from sottovoce.core.bundle.word_list import RowFile
from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady, Remedy
from sottovoce.core.platform.schema import decode, parse_object
from sottovoce.core.text.onnx_models import Session, session

FORMAT: Final = "encoder.v1"
DESCRIPTION: Final = "encoder.json"
NETWORK: Final = "encoder.onnx"
TABLE: Final = "table.npy"
MAX_TOKENS: Final = 256
"""Longer texts are cut. Cost grows with the square."""
_SCALE_BYTES: Final = 4

Floats1d = NDArray[np.float32]
Floats2d = NDArray[np.float32]

_MOST: Final = 1 << 20
"""The largest number in a shape; a larger graph would not fit a device either."""

_MOST_LAYERS: Final = 1_024
_LARGEST_DESCRIPTION: Final = 1 << 18

_READ: Final = 32
"""Characters read for each token of the limit, so that no whole book is cut into tokens."""


class Layer(NamedTuple):
    """A linear layer that low-rank updates can be added to, with its input and output widths."""

    name: str
    inputs: int
    outputs: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The content of ``encoder.json``.

    Attributes:
        backbone_sha256: of the weights it was made from.
        width: of its states.
        tokens: in the table.
        positions: the most tokens, virtual ones included.
        longest: the most tokens of a text, special ones included; the rest is cut off, as in the
            cloud.
        before, after: ids of the special tokens around a text.
        layers: that take low-rank updates, in the order of `Additions.lora`.
        prefix: numbers in a virtual key and value of every layer; 0 if the graph takes none.
    """

    backbone_sha256: str
    width: int
    tokens: int
    positions: int
    longest: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    layers: tuple[Layer, ...]
    prefix: int

    @property
    def lora(self) -> int:
        """The numbers in an update of rank 1, over all layers."""
        return sum(layer.inputs + layer.outputs for layer in self.layers)

    @classmethod
    def decode(cls, facts: Mapping[str, Any]) -> Self:
        """Read the shape from the description.

        Raises:
            ValueError: it is no description, or its encoder could not run on a device.
        """
        shape = decode(cls, facts)
        sizes = (shape.width, shape.tokens, shape.positions)
        sides = [side for layer in shape.layers for side in (layer.inputs, layer.outputs)]
        around = (*shape.before, *shape.after)
        if (
            not all(0 < size <= _MOST for size in (*sizes, *sides))
            or not 0 <= shape.prefix <= _MOST
            or len(shape.layers) > _MOST_LAYERS
            or not len(around) < shape.longest <= shape.positions
            or not all(0 <= token < shape.tokens for token in around)
        ):
            raise ValueError("out of range")
        return shape


@dataclass(frozen=True, slots=True, eq=False)
class Additions:
    """The inputs that one adapter adds to a pass of the encoder; zero rows add nothing.

    An encoder without prefixes takes only adapters with no rows in ``prefix``.

    Attributes:
        prompt: virtual tokens before the text, Float (P, width).
        prefix: virtual keys and values before every layer's, Float (P, `Shape.prefix`).
        lora: layer by layer, the rows of A, then the columns of B already scaled: Float (rank,
            `Shape.lora`).
    """

    prompt: Floats2d
    prefix: Floats2d
    lora: Floats2d

    @classmethod
    def none(cls, shape: Shape) -> Self:
        """Return the additions of an adapter that is a head alone."""
        return cls(*(np.zeros((0, n), np.float32) for n in (shape.width, shape.prefix, shape.lora)))


@dataclass(frozen=True, eq=False)
class Encoder:
    """The encoder of one bundle. Safe to share between threads.

    Attributes:
        shape: of it and its inputs.
    """

    shape: Shape
    _tokenizer: Tokenizer
    _session: Session
    _table: RowFile

    @classmethod
    def load(cls, bundle: Bundle) -> Self:
        """Open the encoder that was pulled with ``bundle``, and check every byte.

        Raises:
            NotReady: the bundle has none, or the device did not fetch it.
            DataLoss: a file is missing or altered, or not what the description says.
            BundleMismatch: another format, or for another backbone than the bundle's.
        """
        folder = bundle.encoder_folder
        optional = bundle.manifest.optional
        if not optional:
            raise NotReady(
                "this bundle has no encoder for devices",
                fix=Remedy.BUILD_ENCODER,
                subject="encoder",
            )
        if not folder.is_dir():
            raise NotReady(
                "the bundle's encoder is not on this device",
                fix=Remedy.GET_ENCODER,
                subject="encoder",
            )
        hashes = {Path(path).name: stored.sha256 for path, stored in optional.items()}
        encoder = cls.open(folder, bundle.tokenizer, hashes)
        if encoder.shape.backbone_sha256 != bundle.manifest.backbone.sha256:
            raise BundleMismatch(
                "the bundle's encoder is for another backbone", fix="ask the provider"
            )
        return encoder

    @classmethod
    def open(
        cls, folder: Path, tokenizer: Tokenizer, hashes: Mapping[str, str] | None = None
    ) -> Self:
        """Open the encoder in ``folder``.

        Each file is opened once. So the hashed file is the used one, even if another takes its
        name.

        Args:
            folder: as the cloud wrote it.
            hashes: SHA-256 of each file; None if the caller trusts the files.

        Raises:
            DataLoss, BundleMismatch: as `load`.
        """
        name = DESCRIPTION
        try:
            with (folder / DESCRIPTION).open("rb") as file:
                data = file.read(_LARGEST_DESCRIPTION)
            _vouched(name, hashlib.sha256(data).hexdigest(), hashes)
            form, facts = parse_object(data)
            if form != FORMAT:
                raise BundleMismatch(
                    f"the bundle's encoder has another format than {FORMAT!r}",
                    fix=Remedy.MATCH_VERSIONS,
                    subject="encoder",
                )
            shape = Shape.decode(facts)
            name = TABLE
            table = RowFile(folder / TABLE)
            _vouched(name, table.sha256(), hashes)
            width = shape.width + _SCALE_BYTES
            if table.dtype != np.int8 or table.shape != (shape.tokens, width):
                raise ValueError("another shape")
            name = NETWORK
            with (folder / NETWORK).open("rb") as file:
                _vouched(name, hashlib.file_digest(file, "sha256").hexdigest(), hashes)
                network = _session(f"/proc/self/fd/{file.fileno()}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _damaged(name) from error
        return cls(shape, tokenizer, network, table)

    def pooled(self, text: str, additions: Additions) -> Floats1d:
        """Return the mean of the last states of a text's tokens.

        Special and virtual tokens are left out.

        Args:
            text: in the clear; what is over `Shape.longest` tokens is cut off.

        Returns:
            Floats1d (width,), not scaled.
        """
        shape = self.shape
        room = shape.longest - len(shape.before) - len(shape.after)
        ids = self._tokenizer.ids(text[: _READ * shape.longest])[:room]
        tokens = token_rows(self._table, [*shape.before, *ids, *shape.after])
        weights = np.zeros(len(tokens), np.float32)
        # A text of nothing the tokenizer knows still needs a mean, as in the cloud.
        weights[len(shape.before) : len(shape.before) + len(ids) if ids else None] = 1
        if not ids:
            weights[:] = 1
        front = len(additions.prompt)
        feed = {
            "embeddings": np.concatenate([additions.prompt, tokens]),  # (P + n, width)
            "weights": np.pad(weights / weights.sum(), (front, 0)),  # (P + n,)
            "lora": additions.lora,
        }
        if shape.prefix:
            feed["prefix"] = additions.prefix
        pooled: Floats1d = self._session.run(["pooled"], feed)[0]
        if pooled.shape != (shape.width,):
            raise _damaged(NETWORK)
        return pooled


def token_rows(table: RowFile, ids: Sequence[int]) -> Floats2d:
    """Return token embeddings (n, width) from the file `TABLE`."""
    rows = table[ids]  # (n, width + 4)
    scale = np.ascontiguousarray(rows[:, -_SCALE_BYTES:]).view("<f4")  # (n, 1)
    return rows[:, :-_SCALE_BYTES] * scale  # type: ignore[no-any-return]


def _session(path: str) -> Session:
    try:
        return session(path)
    except DataLoss as error:
        raise _damaged(NETWORK) from error


def _vouched(name: str, found: str, hashes: Mapping[str, str] | None) -> None:
    if hashes is not None and found != hashes.get(name):
        raise _damaged(name)


def _damaged(path: str) -> DataLoss:
    return DataLoss(
        f"the encoder's file {Path(path).name} is missing or was altered",
        fix=Remedy.RESTORE_ENCODER,
        subject="encoder",
    )
