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

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.gaussian import (
    RELATION,
    Budget,
    Stage,
    epsilon_of_whole,
    normal,
    with_least_noise,
)
from sottovoce.core.privacy.noise import Random, SecureRandom

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
    ) -> VotePlan:
        """Return the plan with the least noise that keeps within ``budget``.

        It asks about one text for every teacher and unit of epsilon, and answers at most half
        (docs/lab_notes.md lists the alternatives that were tried).

        Args:
            budget: the limit.
            records: number of labelled examples.
            public: number of texts that could be asked about.
            share: approximate number of records for each teacher.
        """
        teachers = max(2, records // share)
        queries = min(public, max(_FEWEST, math.ceil(teachers * budget.epsilon)))
        answers = max(1, queries // 2)

        def stages(noise: float) -> tuple[Stage, Stage]:
            check = Stage(queries, 1.0, _CARELESS * noise, _HIGHEST)
            return check, Stage(answers, 1.0, noise, _COUNTS)

        check, answer = stages(with_least_noise(stages, budget))
        return cls(records, budget, teachers, _AGREEMENT * teachers, check, answer)

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


MIN_EPSILON = 0.001
"""Below this the labels say nothing that could be trained on."""

MAX_EPSILON = 20.0
"""Beyond this the label is in the clear for any practical purpose, and should be called so."""


def check_epsilon(epsilon: float) -> None:
    """Refuses an ``epsilon`` that is not from `MIN_EPSILON` to `MAX_EPSILON`.

    Raises:
        InvalidInput: ``subject`` is "label_epsilon".
    """
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:  # nor is NaN
        raise InvalidInput(
            "label_epsilon is out of range",
            fix=f"give {MIN_EPSILON:g} to {MAX_EPSILON:g}, or 0 to send labels as they are",
            subject="label_epsilon",
        )


def respond(label: str, classes: Sequence[str], epsilon: float, chance: bytes) -> str:
    """Return the label to send: the true one or another, all others equally likely.

    The true label is sent with probability e^epsilon / (e^epsilon + classes - 1).

    Args:
        label: the true label, one of `classes`.
        classes: all labels, distinct, in an order that does not depend on this example.
        epsilon: privacy parameter, from `MIN_EPSILON` to `MAX_EPSILON`.
        chance: 16 to 64 secret, uniform bytes, and with them the whole path: the same bytes give
            the same answer. The agent derives them from its key and the example, so that asking
            again averages nothing out.

    Raises:
        InvalidInput: `epsilon` is out of range.
    """
    check_epsilon(epsilon)
    if not 16 <= len(chance) <= 64:
        raise ValueError("randomised response needs 16 to 64 bytes of chance")
    # A jump process: at times with exponential gaps the answer becomes a uniform class. Up to
    # `ending` no jump has happened with the probability that leaves the stated one in all.
    answer, time, ending = label, 0.0, math.log1p(len(classes) / math.expm1(epsilon))
    for jump in itertools.count():
        drawn = hashlib.blake2b(jump.to_bytes(8, "big"), key=chance, digest_size=16).digest()
        time -= math.log1p(-(int.from_bytes(drawn[:8], "big") >> 11) / 2**53)
        if time > ending:
            break
        answer = classes[int.from_bytes(drawn[8:], "big") % len(classes)]
    return answer
