"""Draws the plain tokens that go in front of a training example.

Why it is here: privatised token reconstruction (RAPT v2 section III-B2) asks the cloud to recover
words it is told, so those words must be anybody's: drawn from the public list, uniformly, without a
look at the user's text. Table VII there found that frequencies help a little and give away the
subject; we follow the paper in drawing uniformly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.edge.bundle import Bundle
from sottovoce.edge.errors import NotFound
from sottovoce.edge.noise import Random

__all__ = ["candidates", "draw"]


def candidates(bundle: Bundle, policy: str) -> NDArray[np.int32]:
    """Ids, ascending, of the free words under the policy's parts of speech.

    Raises:
        NotFound: unknown policy.
    """
    manifest = bundle.manifest
    if policy not in manifest.policies:
        known = ", ".join(manifest.policies)
        raise NotFound("unknown policy", fix=f"use one of: {known}", subject="policy")
    classes = [tag for tag in manifest.policies[policy] if tag in manifest.classes]
    return np.unique(np.concatenate([bundle.class_members(tag) for tag in classes]))


def draw(bundle: Bundle, n: int, policy: str, random: Random) -> list[int]:
    """``n`` word ids, independent and uniform over `candidates`.

    Raises:
        NotFound: unknown policy.
    """
    pool = candidates(bundle, policy)
    places = (random.random((n,)) * len(pool)).astype(np.int64)
    drawn: list[int] = pool[places].tolist()
    return drawn
