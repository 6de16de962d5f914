"""Which rows go through the model together.

Why it is here: padding is work, and so is starting a pass. Rows of like length share one, as many
as are worth it.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["passes"]


def passes(shapes: Sequence[tuple[int, int, int]], tokens: int, overhead: int) -> list[list[int]]:
    """Which rows to run together, so that little is spent on padding and on starting passes.

    Of all ways to cut the rows in order of their lengths the cheapest is taken.

    Args:
        shapes: of every row (model, front, length): which model it needs, how many virtual tokens
            stand in front of it, how many tokens it has. Fronts and texts are padded apart.
        tokens: of one pass, padding included; a longer row goes alone.
        overhead: what a pass costs besides, in tokens.

    Returns:
        Places in ``shapes``, each once; all of a pass need the same model. Passes come in the order
        of their first rows, which a fair queue gave first because they are owed most.
    """
    order = sorted(range(len(shapes)), key=shapes.__getitem__)
    costs, starts = [0], [0]  # of the cheapest cut of the first n rows: its cost, its last pass
    for end in range(1, len(order) + 1):
        last_model, front, length = shapes[order[end - 1]]
        cheapest: tuple[int, int] | None = None
        for start in range(end - 1, -1, -1):
            model, *sizes = shapes[order[start]]
            front, length = max(front, sizes[0]), max(length, sizes[1])
            padded = (end - start) * (front + length)
            if cheapest is not None and (model != last_model or padded > tokens):
                break
            found = (costs[start] + padded + overhead, start)
            cheapest = found if cheapest is None else min(cheapest, found)
        assert cheapest is not None
        costs.append(cheapest[0])
        starts.append(cheapest[1])
    cut: list[list[int]] = []
    end = len(order)
    while end:
        cut.append(order[starts[end] : end])
        end = starts[end]
    return sorted(cut, key=min)
