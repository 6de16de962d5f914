"""Randomised response on class labels, for owners who do not want labels to travel in the clear.

Why it is here: RAPT protects the text of an example and sends its label as it is. k-ary randomised
response gives the label local differential privacy at the stated epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sottovoce.core.errors import InvalidInput

__all__ = ["MAX_EPSILON", "check_epsilon", "keep_probability", "respond"]

MAX_EPSILON = 20.0
"""Beyond this the label is in the clear for any practical purpose, and should be called so."""


def check_epsilon(epsilon: float) -> None:
    """Refuses an ``epsilon`` that is not above 0 and at most `MAX_EPSILON`.

    Raises:
        InvalidInput: ``subject`` is "label_epsilon".
    """
    if not 0 < epsilon <= MAX_EPSILON:  # nor is NaN
        raise InvalidInput(
            "label_epsilon is out of range",
            fix=f"give a number up to {MAX_EPSILON:g}, or 0 to send labels as they are",
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
        epsilon: privacy parameter, above 0, at most `MAX_EPSILON`.
        chance: at least 16 secret, uniform bytes. The same bytes give the same answer; the agent
            derives them from its key and the example, so that asking again averages nothing out.

    Raises:
        InvalidInput: `epsilon` is out of range.
    """
    check_epsilon(epsilon)
    if len(chance) < 16:
        raise ValueError("randomised response needs 16 bytes of chance")
    uniform = (int.from_bytes(chance[:8], "big") >> 11) / 2**53
    if uniform < keep_probability(epsilon, len(classes)):
        return label
    others = [other for other in classes if other != label]
    return others[int.from_bytes(chance[8:16], "big") % len(others)]
