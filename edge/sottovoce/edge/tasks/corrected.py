"""The corrections that wait, as examples of a customisation, and what is said of them.

Why it is here: "example 9" of a table with eight lines helps nobody. A correction lies in no table:
whoever is to change one is told which it is of those that are shown, and how.
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
    """Those of an adapter; ``taken`` are the numbers of those that were given so far, in order."""

    def __init__(self, kept: Corrections, adapter: str) -> None:
        self._kept = kept
        self._adapter = adapter
        self.taken: list[int] = []

    def examples(self, base: Base) -> Iterator[agent.LabelledText]:
        """All of them, for the adapter as it is now, which may be another than they were kept for.

        Raises:
            NotReady: none wait.
            InvalidInput: the adapter has a correction's label no more.
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
        """Says of what is wrong with an example (InvalidInput) which it is: of the table's, where
        none was taken yet, else the last that was taken."""
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
        """Says of corrections that are too few, or too much alike (InvalidInput), what helps."""
        try:
            yield
        except InvalidInput as error:
            if not self.taken:
                raise
            fix = f"{error.fix}; examples of a table (--input) may be given beside corrections"
            raise InvalidInput(error.problem, fix=fix, subject=error.subject) from error
