"""PATE: teachers on disjoint shares vote on public texts, and only a noisy vote is published.

Confident-GNMax (Papernot et al., 2018, algorithm 1; Duan et al., 2023, algorithm 2) asks two
questions about a text. The first is whether the teachers agree. If they do, the second is on which
label. The guarantee depends on details that published code has got wrong:

- Each record is assigned to a teacher by a separate draw, so adding a record moves no other record.
- One record can then change one vote: the highest count by at most 1, and all counts together by at
  most the square root of 2. Each question gets noise for its own bound.
- Every text pays for the first question, answered or not.
- The number of texts asked about, and the maximum number of answers, are fixed before any record is
  read. The price is therefore the same for all votes: Gaussian mechanisms chosen one after the
  other cost no more than their total (Smith and Thakurta, 2022).
- The data-dependent price of the papers is smaller, but reveals something about the records. It is
  neither computed nor published.

This module works for any kind of teacher. In the cloud, a teacher is a head on the states of a
share. On the device, a teacher is a prompt with the examples of a share.
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
"""In place of a label: the teacher does not vote on this text."""

SHARE: Final = 60
"""Approximate number of records for a teacher that is a linear head."""

_HIGHEST: Final = 1.0
"""The largest change to the highest count by one changed vote."""

_COUNTS: Final = math.sqrt(2.0)
"""The change to all counts by one changed vote: one falls by 1, another rises by 1."""

_CARELESS: Final = 4.0
"""Noise of the first question over noise of the second. The first is asked twice as often."""

_AGREEMENT: Final = 0.6
"""Share of the teachers that must agree."""

_FEWEST: Final = 32
"""Minimum number of texts asked about, if available; a student needs this many."""


@dataclass(frozen=True, slots=True)
class VotePlan:
    """A vote and its price.

    Attributes:
        records: number of labelled examples; public.
        budget: the requested budget.
        teachers: number of teachers that share the records.
        threshold: votes that the highest count must reach, noise included.
        check: the first question; one step for each text asked about.
        answer: the second question; one step for each text that may be answered.
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
        """Return the plan with the least noise that keeps within ``budget``.

        It asks about one text for every teacher and unit of epsilon, and answers at most half
        (docs/lab_notes.md lists the alternatives that were tried).

        Args:
            budget: the limit.
            records: number of labelled examples.
            public: number of texts that could be asked about.
            share: approximate number of records for each teacher.
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
        """Return the epsilon spent at the budget's delta. It does not depend on the votes."""
        return epsilon_of_whole((self.check, self.answer), self.budget.delta)

    def to_dict(self) -> dict[str, Any]:
        """Return the privacy statement for recipients of a model trained on the answers."""
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
    """Return the records of each teacher, drawn separately for every record.

    Dealing by position would be unsafe: one more record would move all later records to other
    teachers, and could change every vote. A share may be empty.

    Args:
        records: how many there are.
        teachers: how many shares to make.
        random: for tests only.
    """
    drawn = (random or SecureRandom()).random((records,))
    owners = (drawn * teachers).astype(np.int64)
    return [np.flatnonzero(owners == teacher).tolist() for teacher in range(teachers)]


def tally(votes: Iterable[Ints], texts: int, labels: int) -> Ints:
    """Count the votes: Ints2d (Q, C).

    Args:
        votes: of each teacher, places of labels or `NOBODY`, Ints1d (Q,). A teacher
            without records has none.
        texts: Q.
        labels: C, all labels. A label without votes must be included, because its absence would
            reveal that it got no votes.
    """
    counts = np.zeros((texts, labels), np.int64)
    for each in votes:
        cast = np.flatnonzero(each != NOBODY)
        counts[cast, each[cast]] += 1
    return counts


def ask(counts: Ints, plan: VotePlan, random: Random | None = None) -> dict[int, int]:
    """Run Confident-GNMax; return the label's place for each answered text's place.

    Args:
        counts: votes, Ints2d (Q, C), for all labels.
        plan: sets the noise and the number of each question.
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
