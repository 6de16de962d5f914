"""Guesses what a released word stood for, softly: the expected embedding of the original.

Why it is here: the backbone was never trained on released text. It reads a replacement as if a
person had written it, though bundle, mechanism and eta are public and say how far to trust it.
Before the forward pass the cloud can therefore move every word it received towards the mean of all
words that may have stood there, weighted by how often people write them. That is post-processing
with public numbers: it costs no privacy, needs no training, and no edge knows of it.

For a received word y, with x the word typed and q the noisy vector between them,

    E[emb(x) | y] = E[ sum over x of p(x | q) emb(x) | y ],  p(x | q) ~ p(x) exp(-eta ||q - x||)

The inner sum is exact (the mechanism's density times public frequencies); only q is drawn, as many
times around rare words as around common ones, and weighted back (importance sampling with a
defensive mixture). So every word gets an estimate, which a table of simulated replacements gives
only to words that are often received.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sottovoce.cloud.disk import full_disk_is_unavailable
from sottovoce.cloud.job import Release
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.precision import fast_bfloat16
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import ANY, CLITIC
from sottovoce.core.errors import NotReady
from sottovoce.core.privacy import policies
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.mechanisms.interface import Mechanism
from sottovoce.core.privacy.mechanisms.pct2t2 import OWN
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.system.files import in_place_of
from sottovoce.core.text.readings import READINGS
from sottovoce.core.text.words import Kind, iter_words

__all__ = [
    *("CLASS_COUNTS", "SHARE", "NoiseTable", "WordPlaces"),
    *("class_counts", "level_of", "table"),
]

CLASS_COUNTS: Final = "class_counts.npy"
"""File of a bundle: Floats1d (members,), times each row of ``members.npy`` was met in its class."""

SHARE: Final = 0.5
"""How far words are moved; see docs/utility.md for what was measured."""

UNSEEN: Final = 0.5
"""Occurrences credited to a word never met in its class."""

DRAWS: Final = 2
"""Noisy vectors a word drawn around each word alike, and as many again by frequency."""

LEAST: Final = 4_096
"""Vectors drawn in a class at least, twice: small classes hold the commonest words."""

KEPT: Final = 64
"""Tables kept as files, the latest: about a gigabyte of the default backbone's."""

_VERSION: Final = 2
_ROWS: Final = 128
"""Noisy vectors worked on at once: 11 MB of distances with 22,000 words."""


@dataclass(frozen=True)
class NoiseTable:
    """How to read each word of a bundle when it comes out of one mechanism at one eta.

    Attributes:
        shifts: Float16 (words + 1, h), E[emb(x) | y] - emb(y) for each listed word y; the last row,
            for what is no listed word, is zero.
        share: how far words are moved: 0 leaves them, 1 puts the expectation in their place.
    """

    shifts: Tensor
    share: float = SHARE

    def mix(self, embeddings: Tensor, words: Tensor) -> Tensor:
        """Input embeddings, each word's moved towards what it is expected to stand for.

        Args:
            embeddings: Float (B, n, h), of the sub-tokens received.
            words: Int (B, n), the listed word each belongs to or -1, see `WordPlaces`. All
                sub-tokens of a word are moved alike, so their mean moves to the expectation.

        Returns:
            Float (B, n, h).
        """
        return embeddings + self.share * self.shifts[words].to(embeddings)

    def to(self, device: torch.device | str) -> Self:
        """The same on another device."""
        return replace(self, shifts=self.shifts.to(device))


class WordPlaces:
    """Tells which listed word each sub-token of a released text belongs to."""

    def __init__(self, bundle: Bundle) -> None:
        self._form = Vectors(bundle).normal_form
        self._ids = bundle.word_ids
        self._clitics = bundle.manifest.clitics

    def __call__(
        self, texts: Sequence[str], offsets: Sequence[Sequence[tuple[int, int]]]
    ) -> list[tuple[int, ...]]:
        """Word ids of the sub-tokens of each text; -1 for what belongs to no listed word.

        Args:
            texts: as they went into the tokenizer.
            offsets: for each text, start and end of every sub-token in it, as fast tokenizers give
                with ``return_offsets_mapping``; empty for special tokens.
        """
        return [self._of(text, spans) for text, spans in zip(texts, offsets, strict=True)]

    def _of(self, text: str, spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        words = [word for word in iter_words(text, self._clitics) if word.kind is Kind.WORD]
        found = []
        at = 0
        for start, end in spans:
            # Some tokenizers count the space before a word as part of it: a sub-token belongs to
            # the word its last character is in.
            while at < len(words) and words[at].end < end:
                at += 1
            inside = at < len(words) and words[at].start < end and start < end
            found.append(self._id(words[at].text) if inside else -1)
        return tuple(found)

    def _id(self, word: str) -> int:
        number = self._ids.get(self._form(word))
        return -1 if number is None else number


def table(
    bundle: Bundle, release: Release, backbone: LoadedBackbone, cache: Path | None = None
) -> NoiseTable:
    """The table for words that ``release``'s mechanism replaced.

    A function of bundle, mechanism, eta, policy and backbone alone, so trainer and server agree.

    Args:
        bundle: the one the device used.
        release: mechanism, eta and policy.
        backbone: whose input embeddings are meant; not changed.
        cache: folder to keep tables in, a file each; a damaged one is made again.

    Raises:
        NotReady: the bundle does not say how often its words are met.
        NotFound: see `level_of`.
    """
    mechanism = registry.make(
        release.mechanism, level_of(bundle, release), policies.find(release.policy).with_noise()
    )
    facts = (_VERSION, DRAWS, LEAST, bundle.id, backbone.sha256, mechanism.name, mechanism.tags)
    etas = [mechanism.eta, *(mechanism.eta_of(name) for name in bundle.manifest.classes)]
    name = hashlib.sha256(json.dumps((*facts, *etas)).encode()).hexdigest()[:32]
    file = cache / f"{name}.safetensors" if cache else None
    shape = (bundle.manifest.words + 1, backbone.hidden_size)
    if file is not None and (stored := _read(file, shape)) is not None:
        return stored
    counts = class_counts(bundle)
    made = NoiseTable(_shifts(bundle, mechanism, counts, _embeddings(bundle, backbone)))
    if file is not None:
        _write(file, made)
    return made


def level_of(bundle: Bundle, release: Release) -> Level:
    """The level at which ``release`` was made.

    One eta is told beside the level's name and is enough for most mechanisms; where each class has
    its own, they are looked up under the name.

    Raises:
        NotFound: the bundle does not know the mechanism or the level.
    """
    if registry.find(release.mechanism).contextual:
        return Level(release.eta)
    return bundle.manifest.level(release.mechanism, release.level)


def class_counts(bundle: Bundle) -> dict[str, NDArray[np.float32]]:
    """How often each word was met as what its class says: Floats1d (members,) by class.

    Raises:
        NotReady: the bundle was built without.
    """
    if CLASS_COUNTS not in bundle.manifest.files:
        raise NotReady(
            "the bundle does not say how often its words are met",
            fix="build the bundle again, or train without the noise-aware input",
            subject="bundle",
        )
    counts = np.load(bundle.folder / CLASS_COUNTS, allow_pickle=False)
    return {
        name: counts[about.offset : about.offset + about.words]
        for name, about in bundle.manifest.classes.items()
    }


def _embeddings(bundle: Bundle, backbone: LoadedBackbone) -> Tensor:
    """Mean input embedding of each listed word's sub-tokens: Float (words, h)."""
    tokens = torch.from_numpy(backbones.input_embeddings(backbone))
    pieces = backbone.tokenizer(list(bundle.words), add_special_tokens=False)["input_ids"]
    flat = torch.tensor([piece for ids in pieces for piece in ids])
    starts = np.cumsum([0, *(len(ids) for ids in pieces[:-1])])
    return torch.nn.functional.embedding_bag(flat, tokens, torch.from_numpy(starts), mode="mean")


@torch.no_grad()
def _shifts(
    bundle: Bundle,
    mechanism: Mechanism,
    counts: dict[str, NDArray[np.float32]],
    embeddings: Tensor,
) -> Tensor:
    """See `NoiseTable.shifts`."""
    words = len(embeddings)
    received = torch.zeros(words)  # how often each word comes out
    sums = torch.zeros_like(embeddings)  # and the sum of what it stood for
    random = np.random.default_rng(0)
    for name, met in counts.items():
        members = torch.from_numpy(bundle.class_members(name).astype(np.int64))
        if not len(members):
            continue
        hidden = _hidden(bundle, mechanism, name)
        if hidden is None:
            continue
        times = torch.from_numpy(np.where(hidden, 0, met))  # passes as it was typed
        received[members] += times
        sums[members] += times[:, None] * embeddings[members]
        if not hidden.any():
            continue
        rows = torch.from_numpy(np.array(bundle.class_rows(name)))  # (m, r)
        weights = torch.from_numpy(hidden * (met + np.float32(UNSEEN)))  # (m,)
        times, expected = _expected(rows, weights, embeddings[members], mechanism, name, random)
        received[members] += times
        sums[members] += expected
    sums = torch.where(received[:, None] > 0, sums / received[:, None] - embeddings, 0)
    return torch.cat([sums, sums.new_zeros(1, sums.shape[1])]).half()


def _hidden(bundle: Bundle, mechanism: Mechanism, name: str) -> NDArray[np.bool_] | None:
    """Which members of a class get noise in it: Bools1d (members,); None if nothing is met there
    as ``mechanism`` sees it."""
    members, clitic = bundle.class_members(name), name.endswith(CLITIC)
    if not mechanism.contextual:
        if name != ANY + CLITIC and not name.startswith(OWN):
            return None
        covered = [place for place, each in enumerate(READINGS) if mechanism.protects(each)]
        return np.isin(bundle.readings[members], covered)
    tag = name.removesuffix(CLITIC)
    if name.startswith(OWN) or mechanism.word_class(tag, clitic) != name:
        return None
    protected = mechanism.protects(tag)
    return np.full(len(members), protected) if protected or tag != ANY else None


def _expected(
    rows: Tensor,
    weights: Tensor,
    embeddings: Tensor,
    mechanism: Mechanism,
    name: str,
    random: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """For each word of a class how often it comes out, and the sum of the embeddings behind it.

    Args:
        rows: Float (m, r), the class in the privacy space, rows of length 1.
        weights: Float (m,), how often each word is typed.
        embeddings: Float (m, h).
        mechanism: draws the noise.
        name: of the class.
        random: of the draws.

    Returns:
        Float (m,) and Float (m, h).
    """
    m = len(rows)
    received, sums = torch.zeros(m), torch.zeros_like(embeddings)
    columns = -2 * rows.T
    # Three quarters of the time goes into one product, and bfloat16 is exact enough for a mean.
    kind = torch.bfloat16 if fast_bfloat16() else torch.float32
    meanings = embeddings.to(kind)
    # Every word alike, and words as they are met: each half covers what the other leaves thin.
    each_word = max(DRAWS, -(-LEAST // m))
    sources = torch.cat([torch.arange(m).repeat(each_word), _by_weight(weights, each_word * m)])
    drawn = torch.bincount(sources, minlength=m).float()  # (m,)

    def receive(noisy: Tensor, outputs: Tensor | None = None) -> None:
        away = torch.addmm(noisy.square().sum(1, keepdim=True) + 1, noisy, columns)  # (n, m)
        outputs = away.argmin(1) if outputs is None else outputs  # eq. 2: what comes out
        away.clamp_min_(0).sqrt_()
        away -= away.amin(1, keepdim=True)
        density = away.mul_(-mechanism.eta_of(name)).exp_()  # up to a factor a row
        proposed = density @ drawn  # (n,)
        density *= weights
        density /= proposed[:, None]  # rows sum to p(q) / g(q)
        received.index_add_(0, outputs, density.sum(1))
        sums.index_add_(0, outputs, (density.to(kind) @ meanings).float())

    for start in range(0, len(sources), _ROWS):
        some = rows[sources[start : start + _ROWS]]
        receive(torch.from_numpy(mechanism.perturb(some.numpy(), random, [name] * len(some))))
    # What no draw met is read as if it had come out of its own place.
    missed = torch.nonzero(received == 0)[:, 0]
    for start in range(0, len(missed), _ROWS):
        some = missed[start : start + _ROWS]
        receive(rows[some], some)
    return received, sums


def _by_weight(weights: Tensor, n: int) -> Tensor:
    """About ``n`` places, as often as their weights say: Int (about n,); systematic sampling."""
    ends = (weights.double().cumsum(0) * (n / weights.sum(dtype=torch.float64))).floor().long()
    return torch.repeat_interleave(torch.arange(len(weights)), ends.diff(prepend=ends.new_zeros(1)))


def _read(file: Path, shape: tuple[int, int]) -> NoiseTable | None:
    try:
        shifts = load_file(file)["shifts"]
    except (OSError, SafetensorError, KeyError):
        return None
    return NoiseTable(shifts) if shifts.shape == shape else None


def _write(file: Path, made: NoiseTable) -> None:
    with full_disk_is_unavailable():
        file.parent.mkdir(parents=True, exist_ok=True)
        with in_place_of(file) as aside:
            save_file({"shifts": made.shifts}, aside)
    # Tenants choose eta, so there is no end to the tables they can ask for.
    kept = sorted(file.parent.glob("*.safetensors"), key=_written)
    for old in kept[:-KEPT]:
        old.unlink(missing_ok=True)


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:  # another process has just removed it
        return 0.0
