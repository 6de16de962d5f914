"""Check a customisation's examples, one by one and together, and keep the owner's corrections.

Examples that the cloud would refuse are refused here, before any privacy is spent.

A correction that cannot be taught is refused at once, while the owner still sees the text. Nothing
is released, sent or charged here. The customiser does that when the owner asks for it.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.limits import (
    FEWEST_EXAMPLES,
    FEWEST_PRIVATE_EXAMPLES,
    FEWEST_PUBLIC,
    LARGEST_TEXT,
    LONGEST_LABEL,
    MOST_EXAMPLES,
    MOST_LABELS,
)
from sottovoce.core.text.words import check_text, iter_words
from sottovoce.edge.state.corrections import Correction, Corrections
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import Seal
from sottovoce.edge.state.outbox import OpaqueIds, Outbox, setting_of
from sottovoce.edge.tasks.adapters import trained_by_cloud
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training


def check_example(sequence: int, example: agent.LabelledText, *, writes: bool) -> None:
    """Check one example: its length, and the fields that the task needs.

    ``writes`` is true for generation.

    Raises:
        InvalidInput: the example is invalid. The message never contains its text; `numbered` adds
            its number.
    """
    problem = fix = ""
    if sequence >= MOST_EXAMPLES:
        problem, fix = "one example too many", f"send at most {MOST_EXAMPLES}"
    elif max(len(example.text.encode()), len(example.output.encode())) > LARGEST_TEXT:
        problem, fix = "its text is too long", f"cut it to {LARGEST_TEXT >> 10} KiB"
    elif writes and not (example.text.strip() and example.output.strip()):
        problem, fix = "it has no input or no output", "give both for every example"
    elif example.label if writes else example.output:
        problem = "it has a label" if writes else "it has an output"
        fix = "give labels for classification, and outputs for generation"
    elif example.public and (example.label or writes):
        problem, fix = "it is public and has a label", "leave the label out, or do not call it so"
    elif not (writes or example.public or example.label.strip()):
        problem, fix = "it has no label", "label every example"
    elif len(example.label) > LONGEST_LABEL:
        problem, fix = "its label is too long", f"use at most {LONGEST_LABEL} characters"
    if problem:
        raise InvalidInput(problem, fix=fix, subject="examples")


@contextmanager
def numbered(sequence: int, what: str = "example") -> Iterator[None]:
    """Add an item's number, counted from 1, to an InvalidInput error."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(
            f"{what} {sequence + 1}: {error.problem}", fix=error.fix, subject=error.subject
        ) from error


def check_private(settings: agent.CustomizationSettings, examples: int, public: int) -> None:
    """Check that private training, and PATE, have enough examples.

    Args:
        examples: number of examples with a label.
        public: number of examples without one.

    Raises:
        InvalidInput: there are too few, or there are public texts without PATE.
    """
    if public and not settings.training.pate:
        raise InvalidInput(
            "public texts without PATE: nothing learns from them",
            fix="leave them out, or ask for pate",
            subject="examples",
        )
    if settings.training.pate and public < FEWEST_PUBLIC:
        raise InvalidInput(
            f"{public} public texts are too few",
            fix=f"give at least {FEWEST_PUBLIC}, hundreds if you can",
            subject="examples",
        )
    few = examples < FEWEST_PRIVATE_EXAMPLES and not settings.dp_few_examples
    if settings.training.dp_epsilon and few:
        raise InvalidInput(
            f"{examples} examples are few for private training: it would cost much accuracy",
            fix=f"give {FEWEST_PRIVATE_EXAMPLES:,}, or ask for it all the same (--dp-few-examples)",
            subject="examples",
        )


def check_number(examples: int) -> None:
    """Refuse fewer examples than training needs (InvalidInput)."""
    if examples < FEWEST_EXAMPLES:
        raise InvalidInput(
            f"{examples} examples are too few",
            fix=f"give at least {FEWEST_EXAMPLES}",
            subject="examples",
        )


def check_labels(seen: Counter[str]) -> None:
    """Refuse labels with counts that training cannot use (InvalidInput)."""
    problem = fix = ""
    alone = sorted(label for label, times in seen.items() if times == 1)
    if len(seen) < 2:
        problem, fix = "all examples have the same label", "give examples of at least two labels"
    elif len(seen) > MOST_LABELS:
        problem, fix = f"{len(seen)} labels are too many", f"use at most {MOST_LABELS}"
    elif alone:
        problem = f"label {alone[0]!r} occurs once"
        fix = "give at least 2 examples of each label, or drop it"
    if problem:
        raise InvalidInput(problem, fix=fix, subject="examples")


@dataclass(frozen=True, slots=True)
class Base:
    """An adapter to add to.

    Attributes:
        names: the pseudonyms of the adapter and its labels in the cloud.
    """

    names: OpaqueIds
    training: training.TrainingSettings
    setting: Setting

    def check(self, seen: Iterable[str]) -> None:
        """Refuse labels that the adapter does not have (InvalidInput)."""
        unknown = sorted(set(seen) - set(self.names.labels.values()))
        if self.names.labels and unknown:
            raise InvalidInput(
                f"the adapter has no label {unknown[0]!r}",
                fix="leave those examples out, or train it anew with all labels (--replace)",
                subject="examples",
            )


def base_of(outbox: Outbox, name: str) -> Base:
    """Return the adapter ``name`` as a base for more examples."""
    record = trained_by_cloud(outbox, name)
    job = outbox.job_request(record.id)
    # Only this adapter's labels: the cloud does not know labels of the name's other records.
    return Base(outbox.pseudonyms(record), job.training, setting_of(job))


def labelled(seal: Seal, text: str, label: str) -> bytes:
    """Return the identifier of an example with its label."""
    return seal.name(b"labelled", _words(text), label.encode())


def choice(seal: Seal, labels: Iterable[str]) -> bytes:
    """Return the identifier of the set of labels that an example could have had."""
    return seal.name(b"labels", *(label.encode() for label in labels))


def label_charge(seal: Seal, example: bytes, among: bytes) -> bytes:
    """Return the ledger's key for an example's label.

    Both arguments come from the functions above.
    """
    return seal.name(b"label charged", example, among)


def _words(text: str) -> bytes:
    """Return a hash that near copies share: lower-case words without punctuation."""
    held = hashlib.sha256()
    for word in iter_words(text):
        if any(map(str.isalnum, word.text)):
            held.update(word.text.lower().encode() + b" ")
    return held.digest()


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
