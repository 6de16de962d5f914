"""Share of the facts' names and numbers that an attacker recovers from the releases.

A policy that hides nothing would have the best answers, so quality needs this figure beside it. The
attackers are those of `bench.attacks` on released words, and know human texts about other facts of
the same kind. Only the words of subjects and objects are judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.attacks.bigram import Bigrams, numbered
from bench.attacks.channels import Words
from bench.attacks.inversion import ContextMap, Map, Nearest
from bench.attacks.measures import Tally
from bench.attacks.public import Public
from bench.attacks.text import Text
from bench.generation.webnlg import Entry
from bench.leaks.counting import FUNCTION_WORDS
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.text.words import split

__all__ = ["Attackers"]


class Attackers:
    """Attackers with the bundle, and with other texts of the same kind.

    Args:
        public: the bundle and the shipped counts.
        known: public entries; bigrams are counted in their facts and texts.
        few: number of known entries whose releases the attackers are fitted on.
        private: entries whose facts are attacked.
    """

    def __init__(
        self, public: Public, known: Sequence[Entry], few: int, private: Sequence[Entry]
    ) -> None:
        self._public, clitics = public, public.bundle.manifest.clitics
        lexicon = public.lexicon
        self._known = Text.of([entry.facts for entry in known[:few]], lexicon, clitics)
        self._private = Text.of([entry.facts for entry in private], lexicon, clitics)
        told = [[text] for entry in known for text in (entry.facts, *entry.texts)]
        # Only now does the lexicon hold all that is met.
        text = numbered(told, lexicon, clitics)
        self._bigrams = Bigrams.of(text, len(lexicon))
        self._judged = np.concatenate([_named(entry, clitics) for entry in private])

    def recovered(self, setting: Setting) -> dict[str, Any]:
        """Return two shares of the judged words, with intervals over entries.

        ``verbatim`` is the share released as typed. ``attacked`` is the share that the best
        attacker recovers, verbatim words included.
        """
        channel = Words(self._public, setting)
        random = np.random.default_rng(1)
        seen = channel.release(self._private, random)
        known = channel.release(self._known, random)
        found = {}
        boundary = self._public.lexicon.boundary
        for attack in (
            Nearest(channel),
            Map(channel),
            ContextMap(channel, self._bigrams, boundary),
        ):
            attack.fit(known)
            found[attack.name] = self._tally(attack.guess(seen.seen) == seen.true)
        best = max(found, key=lambda name: found[name].share)
        return {
            "verbatim": _figure(found[Nearest.name]),
            "attacked": {**_figure(found[best]), "attack": best},
        }

    def _tally(self, right: NDArray[np.bool_]) -> Tally:
        sentence = self._private.sentence
        return Tally(
            np.bincount(sentence, right & self._judged), np.bincount(sentence, self._judged)
        )


def _figure(tally: Tally) -> dict[str, Any]:
    return {"mean": tally.share, "interval": tally.interval()}


def _named(entry: Entry, clitics: Sequence[str]) -> NDArray[np.bool_]:
    """Return the judged words of the facts: Bools1d.

    These are words of a subject or object, with a letter or digit, that are no function words.
    """
    facts = entry.facts
    start, spans = 0, []
    for triple in facts.split("; "):
        subject, _, rest = triple.partition(" | ")
        end = start + len(triple)
        spans += [(start, start + len(subject)), (end - len(rest.partition(" | ")[2]), end)]
        start = end + len("; ")
    return np.array(
        [
            any(map(str.isalnum, word.text))
            and word.text.lower() not in FUNCTION_WORDS
            and any(begin <= word.start < end for begin, end in spans)
            for word in split(facts, clitics)
        ]
    )
