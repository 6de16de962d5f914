"""Cuts the word counts down to what ships with the device.

A device measures for itself what a level protects, with frequencies that do not come from the
bundle. 200 kB of counts would do. A quarter does as well, with the average count of the words that
were cut off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np

from sottovoce.core.text.frequencies import PublicCounts
from sottovoce.models.corpus.frequencies import FrequencyTable

__all__ = ["LEAST", "cut"]

LEAST: Final = 30
"""Words met less often are cut off. With these, shares replaced and recovered come out as with the
whole table, within the error of 4,000 simulated words."""


def cut(table: FrequencyTable, listed: Mapping[str, str]) -> PublicCounts:
    """The part of ``table`` that a device needs.

    Args:
        table: public counts.
        listed: words whose reading is a list's, and that reading.
    """
    totals: Counter[tuple[str, bool]] = Counter()
    entries = list(zip(table.words, table.clitics.tolist(), strict=True))
    for entry, count in zip(entries, table.counts.tolist(), strict=True):
        totals[entry] += count
    kept = np.array([totals[entry] >= LEAST for entry in entries])
    rare = [count for count in totals.values() if count < LEAST]
    return PublicCounts(
        language=table.language.code,
        accents=table.language.accents,
        words=tuple(word for word, keep in zip(table.words, kept, strict=True) if keep),
        clitics=table.clitics[kept],
        tags=table.tags[kept],
        counts=table.counts[kept],
        tail=round(sum(rare) / max(1, len(rare)), 3),
        listed=dict(sorted(listed.items())),
    )
