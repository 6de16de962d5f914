"""Randomised response on class labels, for owners who do not want labels to travel in the clear.

RAPT protects the text of an example and sends its label unchanged. k-ary randomised response gives
the label local differential privacy at the stated epsilon. The answers for one example are points
of one path, and each smaller epsilon adds noise to the answer before ("gradual release",
Koufogiannis, Han and Pappas 2016). Answers at several epsilons therefore reveal no more than the
answer at the largest.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence

from sottovoce.core.errors import InvalidInput

__all__ = ["MAX_EPSILON", "MIN_EPSILON", "check_epsilon", "keep_probability", "respond"]

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


def keep_probability(epsilon: float, classes: int) -> float:
    """Chance that the true label is sent: e^epsilon / (e^epsilon + classes - 1).

    >>> keep_probability(math.log(3), 2)
    0.75
    """
    return 1 / (1 + (classes - 1) * math.exp(-epsilon))


def respond(label: str, classes: Sequence[str], epsilon: float, chance: bytes) -> str:
    """The label to send: the true one with `keep_probability`, else another, all equally likely.

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
    # `ending` no jump has happened with the probability that leaves `keep_probability` in all.
    answer, time, ending = label, 0.0, math.log1p(len(classes) / math.expm1(epsilon))
    for jump in itertools.count():
        drawn = hashlib.blake2b(jump.to_bytes(8, "big"), key=chance, digest_size=16).digest()
        time -= math.log1p(-(int.from_bytes(drawn[:8], "big") >> 11) / 2**53)
        if time > ending:
            break
        answer = classes[int.from_bytes(drawn[8:], "big") % len(classes)]
    return answer
