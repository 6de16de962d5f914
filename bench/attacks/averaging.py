"""Averaging: an attack on several releases of one text together.

n independent releases of a word are worth n times eta. The device therefore draws noise from a
key, so that a repeated document gives the same bytes as its first release. This attack measures
the key's value. It runs against an agent, and against a privatizer without a key.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from numpy.random import Generator

from bench.attacks.channels import Words
from bench.attacks.interface import Floats, Releases, Seen
from bench.attacks.inversion import Map, chunks
from bench.attacks.text import Ints, Text
from sottovoce.edge.config import BundleConfig, PrivacyConfig, TaggerConfig
from sottovoce.edge.state.database import NoiseKeys, Store
from sottovoce.edge.state.ledger import Ledger
from sottovoce.edge.tasks.engine import Engine
from sottovoce.edge.tasks.privatize import Releases as Agent

__all__ = ["AFRESH", "ONE_KEY", "Averaging", "afresh", "under_one_key"]

AFRESH: Final = "fresh noise"
ONE_KEY: Final = "one key"


class Averaging(Map):
    """Maximum a posteriori over several releases of one text: the log-likelihoods add up.

    Equal releases count once. Two independent releases of a whole text are hardly ever equal, so
    the attacker takes equal ones for copies.
    """

    name: ClassVar[str] = "averaging"

    def guess_all(self, seen: Sequence[Seen]) -> Ints:
        """Guess from several releases of one text.

        Args:
            seen: of the same words, hidden in the same places.
        """
        different: list[Seen] = []
        for each in seen:
            if not any(_equal(each, other) for other in different):
                different.append(each)
        found = different[0].symbols.copy()
        for group, which in chunks(self.channel, different[0]):
            candidates = self.channel.candidates[group]
            scores: Floats = np.tile(candidates.log_prior, (len(which), 1))
            for each in different:
                evidence = self.channel.evidence(each.evidence(which), candidates)
                scores += np.float32(self.rate(group)) * evidence
            found[which] = candidates.ids[scores.argmax(axis=1)]
        return found


def _equal(one: Seen, other: Seen) -> bool:
    if one.vectors is not None and other.vectors is not None:
        return np.array_equal(one.vectors, other.vectors)
    return np.array_equal(one.symbols, other.symbols)


def afresh(channel: Words, text: Text, times: int, random: Generator) -> list[Releases]:
    """Return ``times`` releases with independent noise, which the key is there to prevent."""
    return [channel.release(text, random) for _ in range(times)]


def under_one_key(channel: Words, text: Text, times: int) -> list[Releases]:
    """Return ``times`` releases of every sentence from an agent with its key and ledger."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = BundleConfig(Path(folder))
        bundle.current.symlink_to(channel.public.bundle.folder.resolve())
        store = Store.open(Path(folder) / "state")
        try:
            engine = Engine.configured(bundle, PrivacyConfig(), TaggerConfig())
            agent = Agent(engine, NoiseKeys(store), Ledger(store, 0.0))
            number = channel.public.lexicon.number
            # All releases hide the same words; this does not depend on the draws.
            first = channel.release(text, np.random.default_rng(0))
            found = []
            for _ in range(times):
                symbols = [
                    number(release.text[word.released_start : word.released_end])
                    for release in (agent.release(each, channel.setting) for each in text.documents)
                    for word in release.each_word()
                ]
                seen = replace(first.seen, symbols=np.array(symbols, np.int32))
                found.append(Releases(seen, first.true))
            return found
        finally:
            store.close()
