"""PII scrubbing: an entity recogniser puts a placeholder for each entity and identifier."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bench.attacks.channels import Words
from bench.attacks.entities import EntityTagger
from bench.attacks.interface import OPEN, Candidates, Floats, Releases, Seen, Sees
from bench.attacks.public import Public
from bench.attacks.text import Ints, Lexicon, Text
from sottovoce.core.privacy.mechanisms.spherical import PCT2T
from sottovoce.core.privacy.policies import LEVELS, Setting
from sottovoce.core.text.words import Word, split

__all__ = ["Scrubbed"]


@dataclass(eq=False)
class Scrubbed:
    """Text with placeholders for personal data, and unchanged otherwise.

    An entity recogniser and the identifiers' patterns find the personal data. The attacker guesses
    from the surrounding words.
    """

    public: Public
    recogniser: EntityTagger
    mechanism: str = field(default="PII scrubbing", init=False)
    level: str = field(default="-", init=False)
    sees: Sees = field(default="word", init=False)

    @property
    def rows(self) -> Floats:
        """Return the privacy space; not used."""
        return self.public.bundle.space

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        """Return one group: all listed words, as often as they are written as names."""
        return (self._names,)

    def __post_init__(self) -> None:
        words = Words(self.public, Setting(LEVELS[0], PCT2T.name))
        self._names = words.candidates[words.groups.index("PROPN")]

    _names: Candidates = field(init=False, repr=False)

    def rates(self, group: int) -> tuple[float, ...]:
        """Return the rates: `evidence` is exact, see `Channel`."""
        return (1.0,)

    def send(self, ids: Ints, group: Ints, random: Generator) -> Ints:
        """Return the placeholder."""
        return np.full(len(ids), self._placeholder(self.public.lexicon), np.int32)

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        """Return equal scores, because every word looks the same."""
        return np.zeros((len(seen), len(candidates.ids)), np.float32)

    def release(self, text: Text, random: Generator) -> Releases:
        """Recognise entities sentence by sentence."""
        surfaces = [each.text for each in _words(text, self.public)]
        ends = np.searchsorted(text.sentence, np.arange(len(text.documents)), side="right")
        starts = np.concatenate([[0], ends[:-1]])
        parts = [surfaces[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        labels = [label for each in self.recogniser.tag(parts) for label in each]
        entity: NDArray[np.bool_] = np.array([label != "O" for label in labels])
        gone = (entity & ~text.punctuation) | text.identifier
        symbols = np.where(gone, self._placeholder(self.public.lexicon), text.ids)
        group = np.where(gone & ~text.identifier, 0, OPEN).astype(np.int32)
        return Releases(Seen(symbols.astype(np.int32), None, group, text.sentence), text.ids)

    @staticmethod
    def _placeholder(lexicon: Lexicon) -> int:
        return lexicon.number("[…]")


def _words(text: Text, public: Public) -> list[Word]:
    return [
        word
        for document in text.documents
        for word in split(document, public.bundle.manifest.clitics)
    ]
