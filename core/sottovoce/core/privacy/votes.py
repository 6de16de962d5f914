"""PATE: teachers on disjoint shares vote on public texts, and only a noisy vote is ever told.

Why it is here: Confident-GNMax (Papernot et al., 2018, algorithm 1; Duan et al., 2023, algorithm 2)
asks of each text whether the teachers agree, and of those where they do on what. Its details carry
the guarantee, and published code has had each of them wrong. Every record goes to a teacher by a
draw of its own, so that one record more moves no other. It can then change one vote: the highest
count by at most 1, the counts together by at most the square root of 2, and each question gets the
noise made for it. Whoever is asked about pays for the first question, answered or not; how many are
asked about, and how many at most are answered, is fixed before any record is looked at. The price
is therefore the same whatever the votes: Gaussian mechanisms chosen one after the other cost no
more than their total (Smith and Thakurta, 2022). The data-dependent price of the papers is smaller,
but tells of the records itself; it is neither computed nor told.

What a teacher is, this module does not know: a head on a share's states in the cloud, a prompt with
a share's examples on the device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.privacy.gaussian import (
    RELATION,
    Budget,
    Stage,
    epsilon_of_whole,
    normal,
    with_least_noise,
)
from sottovoce.core.privacy.noise import Random, SecureRandom

__all__ = ["NOBODY", "SHARE", "Ints", "VotePlan", "ask", "deal", "tally"]

Ints = NDArray[np.int64]

ACCOUNTANT: Final = "Gaussian mechanisms in closed form (Balle and Wang, 2018)"

NOBODY: Final = -1
"""In the place of a label: this teacher does not vote on this text."""

SHARE: Final = 60
"""Records that a teacher learns from, about, where it is a linear head."""

_HIGHEST: Final = 1.0
"""What one vote changed moves the highest count by, at most."""

_COUNTS: Final = math.sqrt(2.0)
"""What it moves all counts together by: one falls by 1, another rises by 1."""

_CARELESS: Final = 4.0
"""How much more noise the first question gets than the second; it is asked twice as often."""

_AGREEMENT: Final = 0.6
"""Share of the teachers that are to agree."""

_FEWEST: Final = 32
"""Texts asked about, where there are so many; fewer make no student."""


@dataclass(frozen=True, slots=True)
class VotePlan:
    """A vote and its price.

    Attributes:
        records: number of labelled examples; public.
        budget: what was asked for.
        teachers: that share the records.
        threshold: votes that the highest count is to reach, noise included.
        check: the first question; as many steps as texts are asked about.
        answer: the second; as many steps as texts are answered at most.
    """

    records: int
    budget: Budget
    teachers: int
    threshold: float
    check: Stage
    answer: Stage

    @classmethod
    def within(
        cls,
        budget: Budget,
        records: int,
        public: int,
        *,
        share: int = SHARE,
        agreement: float = _AGREEMENT,
    ) -> VotePlan:
        """The least noise that keeps to ``budget``.

        A text to ask about for every teacher and unit of epsilon, half of them to be answered
        (docs/lab_notes.md has what else was tried).

        Args:
            budget: not exceeded.
            records: number of labelled examples.
            public: number of texts that could be asked about.
            share: records that a teacher learns from, about.
            agreement: share of the teachers that ``threshold`` is.
        """
        teachers = max(2, records // share)
        queries = min(public, max(_FEWEST, math.ceil(teachers * budget.epsilon)))
        answers = max(1, queries // 2)

        def stages(noise: float) -> tuple[Stage, Stage]:
            check = Stage(queries, 1.0, _CARELESS * noise, _HIGHEST)
            return check, Stage(answers, 1.0, noise, _COUNTS)

        check, answer = stages(with_least_noise(stages, budget))
        return cls(records, budget, teachers, agreement * teachers, check, answer)

    @property
    def epsilon(self) -> float:
        """What the vote spends at the budget's delta, by its own numbers, whatever the votes."""
        return epsilon_of_whole((self.check, self.answer), self.budget.delta)

    def to_dict(self) -> dict[str, Any]:
        """What whoever gets what learnt from the answers is told."""
        return {
            "mechanism": "pate",
            "epsilon": self.epsilon,
            "delta": self.budget.delta,
            "unit": RELATION,
            "accountant": ACCOUNTANT,
            "public": ["labels", "number of examples", "texts without a label"],
            **asdict(self),
        }


def deal(records: int, teachers: int, random: Random | None = None) -> list[list[int]]:
    """Which records each teacher gets: every record is drawn a teacher of its own.

    Never by position: one record more would move all that follow it to other teachers, and could
    change every vote. A share may be empty.

    Args:
        records: how many there are.
        teachers: how many shares to make.
        random: for tests only.
    """
    drawn = (random or SecureRandom()).random((records,))
    owners = (drawn * teachers).astype(np.int64)
    return [np.flatnonzero(owners == teacher).tolist() for teacher in range(teachers)]


def tally(votes: Iterable[Ints], texts: int, labels: int) -> Ints:
    """Counts of votes: Ints2d (Q, C).

    Args:
        votes: of each teacher, places of labels or `NOBODY`, Ints1d (Q,). One with nothing to
            learn from has none.
        texts: Q.
        labels: C, all there are. A label for which nobody votes is an outcome like any other: to
            leave it out would tell that nobody did.
    """
    counts = np.zeros((texts, labels), np.int64)
    for each in votes:
        cast = np.flatnonzero(each != NOBODY)
        counts[cast, each[cast]] += 1
    return counts


def ask(counts: Ints, plan: VotePlan, random: Random | None = None) -> dict[int, int]:
    """Confident-GNMax: places of the texts that are answered, and the place of the label of each.

    Args:
        counts: votes, Ints2d (Q, C), for every label there is.
        plan: says how much noise each question gets, and how many are asked.
        random: for tests only.

    Raises:
        ValueError: more texts than the plan pays for.
    """
    if len(counts) > plan.check.steps:
        raise ValueError("more texts than the plan pays for")
    highest = _noisy(counts.max(1), plan.check, random)
    agreed = np.flatnonzero(highest >= plan.threshold)[: plan.answer.steps]
    answers = _noisy(counts[agreed], plan.answer, random).argmax(1)
    return dict(zip(agreed.tolist(), answers.tolist(), strict=True))


def _noisy(counts: Ints, stage: Stage, random: Random | None) -> NDArray[np.float64]:
    noise = normal(counts.size, random).reshape(counts.shape)
    noisy: NDArray[np.float64] = counts + stage.noise * stage.clip * noise
    return noisy
