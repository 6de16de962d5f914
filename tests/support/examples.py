"""Labelled texts of a few topics that even a tiny model can learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sottovoce.cloud.job import Example, Release

TOPICS = {
    "garden": ("tree", "leaf", "soil", "rose", "grass", "seed", "lawn", "plant", "root"),
    "kitchen": ("bread", "oven", "salt", "knife", "soup", "spoon", "flour", "sugar", "plate"),
    "office": ("desk", "printer", "paper", "letter", "phone", "chair", "meeting", "memo", "file"),
}
FILLER = ("the", "a", "and", "with", "of", "my", "is", "on", "was", "very", "some", "there")
WORDS = [*(word for topic in TOPICS.values() for word in topic), *FILLER]
RELEASE = Release("pct2t.v1", 30.0, "balanced", "bundle", "content")


def examples(
    count: int, *, plain: int = 0, seed: int = 0, topics: Sequence[str] = tuple(TOPICS)
) -> list[Example]:
    """Return texts that show their topic in half of the words, the topics in turn."""
    random = np.random.default_rng(seed)
    made = []
    for i in range(count):
        label = topics[i % len(topics)]
        words = [
            *random.choice(TOPICS[label], 4, replace=False),
            *random.choice(FILLER, 4, replace=False),
        ]
        ids = random.integers(0, len(WORDS), plain)
        text = " ".join(words[j] for j in random.permutation(len(words)))
        # The plain tokens are released as they are: the easiest case for the head.
        made.append(Example(text, label, tuple(WORDS[j] for j in ids), tuple(map(int, ids))))
    return made
