"""What a maximum-a-posteriori attacker recovers from what left the device.

The attacker knows the mechanism, the level, each word's part of speech and public
word frequencies, and sees the released words. Here we also hold what was typed, so
we can count.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sottovoce.cloud.building.attack import WordMapAttack
from sottovoce.cloud.corpus.frequencies import load
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.text.tagger import OnnxTagger

__all__ = ["Recovered", "run"]

FREQUENCIES = Path("models/frequencies")


@dataclass(frozen=True)
class Recovered:
    """Counts over the protected words of some texts."""

    eta: float
    known: int
    kept: int
    guessed: int
    unknown: int
    unknown_recovered: int
    identifiers: int
    identifiers_recovered: int

    def figures(self) -> dict[str, float]:
        """Shares, rounded."""
        return {
            "protected_words": self.known + self.unknown + self.identifiers,
            "known_words": self.known,
            "kept": round(self.kept / max(self.known, 1), 4),
            "map_recovered": round(self.guessed / max(self.known, 1), 4),
            "unknown_words": self.unknown,
            "unknown_recovered": round(self.unknown_recovered / max(self.unknown, 1), 4),
            "identifiers": self.identifiers,
            "identifiers_recovered": round(
                self.identifiers_recovered / max(self.identifiers, 1), 4
            ),
        }


def run(bundle_folder: Path, level: str, texts: list[str]) -> Recovered:
    """Releases the texts afresh and lets the attacker guess every protected word."""
    bundle = Bundle.open(bundle_folder)
    setting = Setting(level=level)
    privatizer = Privatizer(bundle, OnnxTagger.load(bundle.tagger_folder))
    attacker = WordMapAttack.fit(bundle, load(FREQUENCIES), setting)
    counts = dict.fromkeys(("known", "kept", "guessed", "unknown", "u", "identifiers", "i"), 0)
    eta = 0.0
    for text in texts:
        release = privatizer.release(text, setting)
        eta = release.eta
        for word in release.words:
            if not word.protected:
                continue
            typed = text[word.start : word.end].lower()
            seen = release.text[word.released_start : word.released_end].lower()
            if word.tag == "IDENTIFIER":
                counts["identifiers"] += 1
                counts["i"] += typed == seen
                continue
            guess = attacker.guess(seen, word.tag)
            if typed in bundle.word_ids:
                counts["known"] += 1
                counts["kept"] += typed == seen
                counts["guessed"] += typed == guess
            else:
                counts["unknown"] += 1
                counts["u"] += typed == guess
    return Recovered(
        eta=round(eta, 3),
        known=counts["known"],
        kept=counts["kept"],
        guessed=counts["guessed"],
        unknown=counts["unknown"],
        unknown_recovered=counts["u"],
        identifiers=counts["identifiers"],
        identifiers_recovered=counts["i"],
    )
