"""Release one document for a writing cloud, and restore the answer.

The gates and the written part share this code. As on the device, each release has a key and a
surrogate table for this document alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.restoration import COMMON, Restoration, ordinary_words
from sottovoce.core.privacy.surrogate_table import observe
from sottovoce.models import frequencies

__all__ = ["SETTINGS", "Device"]

_LEVELS: Final = ("strong", "balanced", "light")
SETTINGS: Final = {
    "names": Setting("balanced", "pct2t.v2", "names"),
    **{f"content {level}": Setting(level, "pct2t.v2", "content") for level in _LEVELS},
    **{f"PCT2T {level}": Setting(level, "pct2t.v1", "papers") for level in _LEVELS},
    **{f"T2T {level}": Setting(level, "t2t.v1", "all") for level in _LEVELS},
}
"""The compared settings: our policies, and the published mechanisms with their parts of speech, at
the levels of equal attack success.
"""


@dataclass(frozen=True)
class Device:
    """Releases documents and turns answers back.

    Attributes:
        bundle: its bundle.
        privatizer: over that.
        common: the language's commonest words.
        key: of this measurement; equal figures come of equal keys.
    """

    bundle: Bundle
    privatizer: Privatizer
    common: frozenset[str]
    key: Key

    @classmethod
    def of(cls, bundle: Path, models: Path, seed: int = 0) -> Device:
        """Open the bundle's folder and the shipped counts."""
        opened = Bundle.open(bundle)
        table = frequencies.load(models / "frequencies")
        counts: Counter[str] = Counter()
        for word, met in zip(table.words, table.counts.tolist(), strict=True):
            counts[word] += met
        common = frozenset(word for word, _ in counts.most_common(COMMON))
        return cls(opened, Privatizer.of(opened), common, Key(seed.to_bytes(32, "big")))

    def release(self, document: str, setting: Setting) -> Release:
        """Release the document."""
        return self.privatizer.release(document, setting, key=self.key)

    def restoration(self, release: Release) -> Restoration:
        """Return the restoration for answers to this release."""
        return Restoration(observe([release]), self.common, ordinary_words(self.bundle))
