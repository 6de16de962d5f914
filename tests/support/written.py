"""Inputs and outputs of a form that even a tiny decoder can learn."""

from __future__ import annotations

import numpy as np

from sottovoce.cloud.job import Example

PLACES = ("Paris", "London", "garden", "market", "bridge", "sister")
WORDS = ("letter", "money", "train", "noon", "bread", "coffee")


def written(count: int, *, plain: int = 0, seed: int = 0) -> list[Example]:
    """A place that is to be written in a sentence."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        place = random.choice(PLACES)
        ids = tuple(map(int, random.integers(0, len(WORDS), plain)))
        made.append(
            Example(
                f"to {place}",
                plain_tokens=tuple(WORDS[i] for i in ids),
                plain_token_ids=ids,
                output=f"The train from {place}",
            )
        )
    return made
