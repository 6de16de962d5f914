"""Turn waiting corrections into examples, and explain errors in them.

A correction is in no table, so "example 9" would not help the owner. Error messages give its place
in the list of corrections that is shown, and how to change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.edge.state.corrections import Corrections
from sottovoce.edge.tasks.adding import Base
from sottovoce.edge.tasks.examples import numbered
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["Corrected"]


class Corrected:
    """The corrections of an adapter.

    ``taken`` holds the numbers of the corrections taken so far, in order.
    """

    def __init__(self, kept: Corrections, adapter: str) -> None:
        self._kept = kept
        self._adapter = adapter
        self.taken: list[int] = []

    def examples(self, base: Base) -> Iterator[agent.LabelledText]:
        """Yield all corrections as examples for the adapter as it is now.

        The adapter may have changed since the corrections were kept.

        Raises:
            NotReady: no corrections are waiting.
            InvalidInput: the adapter no longer has a correction's label.
        """
        labels = set(base.names.labels.values())
        waiting = self._kept.waiting(self._adapter)
        for each in waiting:
            self.taken.append(each.number)
            if labels and each.label not in labels:
                others = sum(other.label not in labels for other in waiting)
                more = f", nor those of {others} more" if others else ""
                with self.numbered():
                    raise InvalidInput(
                        f"the adapter no longer has the label {each.label!r}{more}",
                        fix=f"`sotto correct {self._adapter} TEXT LABEL` gives a text another",
                    )
            yield agent.LabelledText(text=each.text, label=each.label)
        if not self.taken:
            raise NotReady(
                f"no corrections of {self._adapter!r} wait",
                fix=f"`sotto correct {self._adapter} TEXT LABEL` keeps one",
                subject="corrections",
            )

    @contextmanager
    def numbered(self, sequence: int = 0) -> Iterator[None]:
        """Add the number of the faulty example to an InvalidInput error.

        The number is the last correction taken, or the table row if no correction was taken yet.
        """
        if not self.taken:
            with numbered(sequence):
                yield
            return
        try:
            with numbered(len(self.taken) - 1, "correction"):
                yield
        except InvalidInput as error:
            shown = f"sotto corrections {self._adapter}"
            raise InvalidInput(
                error.problem,
                fix=f"{error.fix}; `{shown} --show` prints them in this order, `{shown} --forget "
                "--text TEXT` forgets one",
                subject="corrections",
            ) from error

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Add advice to an InvalidInput error about too few or too similar corrections."""
        try:
            yield
        except InvalidInput as error:
            if not self.taken:
                raise
            fix = f"{error.fix}; examples of a table (--input) may be given beside corrections"
            raise InvalidInput(error.problem, fix=fix, subject=error.subject) from error
