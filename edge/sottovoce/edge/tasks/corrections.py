"""Keep corrections: texts with the labels that an adapter should have answered.

A correction that cannot be taught is refused at once, while the owner still sees the text. Nothing
is released, sent or charged here. The customiser does that when the owner asks for it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.rpc import training_settings
from sottovoce.core.text.checks import check_text
from sottovoce.edge.state.corrections import Correction, Corrections
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.tasks.examples import Base, base_of, check_example, numbered
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["Corrected", "Corrector"]

_SHOWN = 20


class Corrector:
    """Keeps corrections, at most ``most`` for each adapter; 0 keeps none."""

    def __init__(self, store: Store, outbox: Outbox, most: int) -> None:
        self._outbox = outbox
        self._kept = Corrections(store)
        self._most = most

    def keep(self, request: adapters.KeepCorrectionsRequest) -> int:
        """Keep texts with their correct labels, and return how many are waiting.

        After an error, none of the request's corrections are kept.

        Raises:
            InvalidInput: a text or label cannot be taught; the message gives its number, never the
                text.
            NotFound: this device has no such adapter.
            NotReady: corrections are switched off, or examples cannot be added to the adapter.
            QuotaExceeded: there are too many corrections, or the disk is full.
        """
        if not self._most:
            raise NotReady(
                "this device keeps no corrections",
                fix="set predict.corrections to how many it may keep of an adapter",
                subject="predict.corrections",
            )
        labels = self._labels(request.adapter)
        pairs = [(each.text, each.label.strip()) for each in request.corrections]
        for place, (text, label) in enumerate(pairs):
            with numbered(place):
                check_example(place, agent.LabelledText(text=text, label=label), writes=False)
                check_text(text)
                if labels and label not in labels:
                    raise _unknown(label, labels)
        self._kept.keep(request.adapter, pairs, self._most)
        return self._kept.count(request.adapter)[0]

    def waiting(self, adapter: str) -> Iterator[Correction]:
        """Yield the waiting corrections of an adapter, oldest first.

        Raises:
            NotFound: this device has no such adapter.
            DataLoss: a correction was altered.
        """
        self._outbox.newest(adapter)
        return self._kept.waiting(adapter)

    def forget(self, request: adapters.ForgetCorrectionsRequest) -> int:
        """Forget an adapter's corrections, or that for one text, and return their number.

        Raises:
            NotFound: no such adapter on this device.
            Unavailable: see `Corrections.forget`.
        """
        self._outbox.newest(request.adapter)
        return self._kept.forget(request.adapter, request.text)

    def status(self) -> Iterator[agent.CorrectionsStatus]:
        """Yield the number of corrections of each adapter that has any."""
        for name in sorted({record.adapter for record in self._outbox.all()}):
            waiting, taken = self._kept.count(name)
            if waiting or taken:
                yield agent.CorrectionsStatus(adapter=name, waiting=waiting, taken=taken)

    def _labels(self, name: str) -> Sequence[str]:
        """Return the labels of an adapter that accepts examples; empty if not known."""
        _, trained = self._outbox.adapter(name)
        if trained and self._outbox.get(trained).local:
            raise NotReady(
                f"{name!r} was learnt on this device alone, from a table that it does not keep",
                fix=f"correct the table, then `sotto learn {name} --input FILE --replace`",
                subject=name,
            )
        base = base_of(self._outbox, name)
        try:
            wanted = agent.CustomizationSettings(adapter=name, add=True)
            training_settings.check(training_settings.added(wanted, base.training))
        except InvalidInput as error:
            raise NotReady(
                f"nothing can be added to {name!r}: {error.problem}",
                fix=f"train it anew with the text among the examples: `sotto customize {name} "
                "--input FILE --replace`",
                subject=name,
            ) from error
        return sorted(base.names.labels.values())


def _unknown(label: str, labels: Sequence[str]) -> InvalidInput:
    near = difflib.get_close_matches(label, labels, 1)
    rest = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    meant = f"did you mean {near[0]!r}? " if near else ""
    return InvalidInput(
        f"the adapter has no label {label!r}",
        fix=f"{meant}it has: {', '.join(labels[:_SHOWN])}{rest}",
        subject="label",
    )


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
