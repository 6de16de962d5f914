"""What became of every word that left the device, and what an attacker recovers of it.

The maximum-a-posteriori attacker knows the mechanism, the level, the class of each word and public
word frequencies, and sees the released words. Here we also hold what was typed, so we can count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import NAMES, PUNCTUATION, Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import WordRelease
from sottovoce.models.calibration_attack import WordMapAttack
from sottovoce.models.frequencies import load

__all__ = ["ALL", "ROWS", "Recovered", "run"]

FREQUENCIES = Path("models/frequencies")

_BY_KIND: Final = {
    **dict.fromkeys(NAMES[1:], "names"),
    "UNLISTED": "words in no list",
    "ORIGIN": "nationalities, religions",
    "NUMBER": "number words",
    "IDENTIFIER": "numbers, addresses, codes",
    "FACT": "facts: health, money, crime",
}
"""Under what the words of a kind are counted; what is not here, by its treatment."""
_BY_TREATMENT: Final = {
    Treatment.NOISE: "other words with noise",
    Treatment.PASS: "words that pass",
}
ALL: Final = "all words"
ROWS: Final = (*dict.fromkeys((*_BY_KIND.values(), *_BY_TREATMENT.values())),)
_EXAMPLES: Final = 4


@dataclass(frozen=True)
class Recovered:
    """Counts over the words of some texts.

    Attributes:
        eta: of the level.
        rows: how many words of each kind there were, how many came out as typed, and how many the
            attacker guessed.
        examples: of each kind, some words and what came out.
    """

    eta: float
    rows: dict[str, tuple[int, int, int]]
    examples: dict[str, list[tuple[str, str]]]

    def figures(self) -> dict[str, Any]:
        """Shares, rounded."""
        return {
            name: {
                "words": words,
                "as_typed": round(kept / words, 4),
                "guessed": round(guessed / words, 4),
                "examples": self.examples[name],
            }
            for name, (words, kept, guessed) in self.rows.items()
        }


def run(bundle_folder: Path, level: str, texts: list[str]) -> Recovered:
    """Releases the texts afresh and lets the attacker guess every word."""
    bundle = Bundle.open(bundle_folder)
    setting = Setting(level=level)
    privatizer = Privatizer.of(bundle)
    attacker = WordMapAttack.fit(bundle, load(FREQUENCIES), setting)
    words, kept, guessed = Counter[str](), Counter[str](), Counter[str]()
    examples: dict[str, list[tuple[str, str]]] = {name: [] for name in (*ROWS, ALL)}
    for text in texts:
        release = privatizer.release(text, setting)
        for word in release.each_word():
            if word.tag == PUNCTUATION:
                continue
            typed = text[word.start : word.end]
            seen = release.text[word.released_start : word.released_end]
            noise = word.treatment is Treatment.NOISE
            guess = attacker.guess(seen.lower(), word.tag) if noise else seen
            for name in (_row(word), ALL):
                words[name] += 1
                kept[name] += typed == seen
                guessed[name] += typed.lower() == guess.lower()
                if len(examples[name]) < _EXAMPLES and (typed, seen) not in examples[name]:
                    examples[name].append((typed, seen))
    rows = {name: (words[name], kept[name], guessed[name]) for name in (*ROWS, ALL) if words[name]}
    return Recovered(round(privatizer.mechanism(setting).eta, 3), rows, examples)


def _row(word: WordRelease) -> str:
    return _BY_KIND.get(word.tag, _BY_TREATMENT.get(word.treatment, ALL))
