"""Puts the shipped denoiser into a bundle if it fits, and calibrates the levels of its mechanism.

Why it is here: a denoiser is trained for one backbone, vocabulary and privacy space. A bundle of
anything else is as good as any other for text, and has no embeddings to offer.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sottovoce.core.bundle.levels import EmbedLevel
from sottovoce.core.bundle.manifest import Backbone
from sottovoce.core.platform.schema import decode, parse_object
from sottovoce.core.privacy.denoiser import DESCRIPTION, FILES, Facts, misfit
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.models.calibration import token_calibration

__all__ = ["add"]


def add(shipped: Path, folder: Path, backbone: Backbone) -> Mapping[str, EmbedLevel]:
    """Copies the denoiser in ``shipped`` into the unfinished bundle in ``folder``.

    Args:
        shipped: folder with a denoiser, or without.
        folder: already holds ``tokenizer.json``, ``tokens.npy`` and ``token_prior.npy``.
        backbone: of the bundle.

    Returns:
        The levels of `token-embedding.v1`; none where there is no denoiser that fits.
    """
    if not (shipped / DESCRIPTION).is_file():
        return {}
    _, raw = parse_object((shipped / DESCRIPTION).read_bytes())
    facts = decode(Facts, raw, more=True)
    tokens = np.load(folder / "tokens.npy", allow_pickle=False)
    if misfit(facts, backbone, folder / "tokenizer.json", tokens):
        return {}
    (folder / "denoisers").mkdir()
    for name in FILES:
        shutil.copyfile(shipped / name, folder / "denoisers" / name)
    prior = np.load(folder / "token_prior.npy", allow_pickle=False)
    return token_calibration.calibrate(unit_rows(tokens), prior)
