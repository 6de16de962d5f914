"""Restores the sentence embedding from the cloud's noisy answer, on the device.

The cloud cannot remove the noise without the text, and only the device has the text
(Split-and-Denoise, section 3.4). The denoiser is a small sentence encoder over the exact tokens. It
also reads the cloud's answer and the strength of the noise. Without an answer it is still a
sentence encoder, and ``sotto embed --local`` uses it as one. It is trained on the errors of one
backbone in one privacy space over a range of eta, and refuses any other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import Eta
from sottovoce.core.bundle.manifest import Backbone, Count, sha256
from sottovoce.core.bundle.tokenizer import VOCABULARY
from sottovoce.core.bundle.word_list import RowFile
from sottovoce.core.errors import BundleMismatch, DataLoss, InvalidInput, NotReady, Remedy
from sottovoce.core.platform.schema import Malformed, Sha256, decode, parse_object
from sottovoce.core.text.onnx_models import session

FORMAT: Final = "denoiser.v1"
DESCRIPTION: Final = "denoiser.json"
NETWORK: Final = "denoiser.onnx"
TABLE: Final = "table.npy"
FILES: Final = (DESCRIPTION, NETWORK, TABLE)

TOLERANCE: Final = 0.01
"""How far the cosines of two sketches of one space may differ: machines round differently."""

Floats1d = NDArray[np.float32]
"""One vector; the shape stands beside each use."""


@dataclass(frozen=True)
class _Of:
    name: str
    sha256: str


@dataclass(frozen=True)
class _Space:
    dimensions: int
    sketch: tuple[float, ...]


@dataclass(frozen=True)
class Facts:
    """The content of ``denoiser.json``; the annotations are its schema.

    Attributes:
        backbone: name and hash of its weights.
        vocabulary: see `vocabulary_hash`.
        space: see `space_sketch`.
        eta: the lowest and the highest.
        width: of an embedding.
        table: shape of the token table.
        sha256: of the network.
    """

    backbone: _Of
    vocabulary: str
    space: _Space
    eta: tuple[Eta, Eta]
    width: Count
    table: tuple[Count, Count]
    sha256: Sha256


class Denoiser:
    """The denoiser of one bundle. Safe to share between threads.

    The token table stays in its file, of which a query reads one row a token.

    Attributes:
        eta_range: the lowest and highest eta whose noise it can take out.
        width: length of the embeddings.
    """

    def __init__(
        self, session: Any, table: RowFile, width: int, eta_range: tuple[float, float]
    ) -> None:
        self._session = session
        self._table = table
        self.width = width
        self.eta_range = eta_range

    @classmethod
    def load(cls, folder: Path, bundle: Bundle) -> Self:
        """Opens the denoiser in ``folder`` for texts that go out under ``bundle``.

        Raises:
            NotReady: the folder holds no denoiser.
            DataLoss: a file is missing, damaged or not what the description says.
            BundleMismatch: it was trained for another backbone, vocabulary, privacy space or range
                of eta.
        """
        description = folder / DESCRIPTION
        if not description.is_file():
            raise NotReady(
                "this bundle has no denoiser",
                fix=Remedy.GET_DENOISER,
                subject="denoiser",
            )
        try:
            form, raw = parse_object(description.read_bytes())
            if form != FORMAT:
                raise _mismatch(f"has format {form[:60]!r}, this agent reads {FORMAT!r}")
            facts = decode(Facts, raw, more=True)
            manifest = bundle.manifest
            if why := misfit(facts, manifest.backbone, bundle.tokenizer_file, bundle.token_rows):
                raise _mismatch(why)
            table = RowFile(folder / TABLE)
            network = (folder / NETWORK).read_bytes()
            digest = hashlib.sha256(network).hexdigest()
            whole = digest == facts.sha256 and table.shape == facts.table
            low, high = facts.eta
            for name, level in manifest.embed.items():
                if not low <= level.eta <= high:
                    raise _mismatch(f"takes out noise of eta {low:g} to {high:g}, not of {name!r}")
        except Malformed as error:
            raise _damaged(f": {DESCRIPTION}: {error}") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged() from error
        if not whole or table.dtype != np.int8:
            raise _damaged()
        return cls(session(network, name=NETWORK), table, facts.width, facts.eta)

    def local(self, ids: Sequence[int]) -> Floats1d:
        """An estimate of the clean embedding from the text alone, with no help from a cloud.

        Args:
            ids: token ids of the text, without special tokens; at least one.

        Returns:
            Floats1d (width,), of length 1.

        Raises:
            InvalidInput: no tokens, or ids that the table does not have.
        """
        return self._run(ids, np.zeros(self.width, np.float32), self.eta_range[0], helped=False)

    def denoise(self, ids: Sequence[int], answer: Floats1d, eta: float) -> Floats1d:
        """An estimate of the clean embedding from the text and the cloud's answer.

        Args:
            ids: token ids of the text, without special tokens; at least one.
            answer: Floats1d (width,), e_n, what the backbone made of the noisy tokens.
            eta: the privacy parameter their noise was drawn with.

        Returns:
            Floats1d (width,), of length 1.

        Raises:
            InvalidInput: no tokens, unknown ids, or an answer of the wrong shape.
            BundleMismatch: ``eta`` is out of the range the denoiser was trained for.
            DataLoss: the answer holds something that is no number.
        """
        low, high = self.eta_range
        if not low <= eta <= high:
            raise _mismatch(f"takes out noise of eta {low:g} to {high:g}, not of {eta:g}")
        if np.shape(answer) != (self.width,):
            raise InvalidInput(
                f"the answer has shape {np.shape(answer)}, not ({self.width},)",
                fix="use a cloud that serves this bundle's backbone",
                subject="answer",
            )
        if not np.isfinite(answer).all():
            raise DataLoss(
                "the cloud's answer is not made of numbers", fix="try again", subject="answer"
            )
        return self._run(ids, np.asarray(answer, np.float32), eta, helped=True)

    def _run(self, ids: Sequence[int], answer: Floats1d, eta: float, *, helped: bool) -> Floats1d:
        places = np.asarray(ids, np.int64)
        if not len(places) or places.min() < 0 or places.max() >= len(self._table):
            raise InvalidInput(
                "a text needs at least one token, all of this bundle's vocabulary",
                fix="cut the text with the bundle's own tokenizer",
                subject="ids",
            )
        inputs = {
            "rows": self._table[places],  # (n, d)
            "answer": answer,  # (width,)
            "eta": np.array([eta], np.float32),
            "helped": np.array([helped], np.float32),
        }
        embedding: Floats1d = self._session.run(["embedding"], inputs)[0]
        if embedding.shape != (self.width,) or not np.isfinite(embedding).all():
            raise _damaged(": they give no embedding")
        return embedding


def vocabulary_hash(tokenizer: Path) -> str:
    """SHA-256 of the tokens in the order of their ids, one a line.

    Args:
        tokenizer: a ``tokenizer.json``, with its vocabulary beside it, as bundles have it, or in
            it; the second is parsed, which takes megabytes.
    """
    lines = tokenizer.with_name(VOCABULARY)
    if lines.exists():
        return sha256(lines)
    found = json.loads(tokenizer.read_bytes())["model"]["vocab"]
    tokens = sorted(found, key=found.__getitem__) if isinstance(found, dict) else found
    whole = "".join(f"{token}\n" for token in tokens)
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def space_sketch(tokens: NDArray[np.float32] | RowFile) -> list[float]:
    """Return the cosines between 64 tokens taken evenly from the vocabulary, each with the next.

    They tell privacy spaces apart, and do not depend on the direction of the axes or on a machine's
    rounding.

    Args:
        tokens: Floats2d (tokens, r), the bundle's projected token embeddings.
    """
    rows = tokens[np.linspace(0, len(tokens) - 1, 64).astype(np.int64)].astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines: list[float] = (rows[:-1] * rows[1:]).sum(axis=1).round(4).tolist()
    return cosines


def misfit(
    facts: Facts,
    backbone: Backbone,
    tokenizer: Path,
    tokens: NDArray[np.float32] | RowFile,
) -> str:
    """Why the denoiser that ``facts`` describe is not for these, or nothing if it is.

    Args:
        facts: what ``denoiser.json`` says.
        tokenizer: the bundle's ``tokenizer.json``.
        tokens: Floats2d (tokens, r), the bundle's projected token embeddings.
    """
    if facts.backbone.sha256 != backbone.sha256:
        return f"is for other weights than the bundle's ({facts.backbone.name!r})"
    if facts.vocabulary != vocabulary_hash(tokenizer):
        return "is for another vocabulary than the bundle's"
    sketch = np.array(space_sketch(tokens))
    if len(sketch) != len(facts.space.sketch):
        return "is for another privacy space than the bundle's"
    apart = np.abs(sketch - np.array(facts.space.sketch))
    if facts.space.dimensions != tokens.shape[1] or apart.max() > TOLERANCE:
        return "is for another privacy space than the bundle's"
    return ""


def _mismatch(what: str) -> BundleMismatch:
    return BundleMismatch(f"the denoiser {what}", fix=Remedy.RESTORE_BUNDLE, subject="denoiser")


def _damaged(how: str = "") -> DataLoss:
    return DataLoss(
        f"the denoiser's files are damaged{how}", fix=Remedy.RESTORE_BUNDLE, subject="denoiser"
    )
