"""Check a customisation's examples, one by one and together.

Examples that the cloud would refuse are refused here, before any privacy is spent.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.rpc.limits import (
    FEWEST_EXAMPLES,
    FEWEST_PRIVATE_EXAMPLES,
    FEWEST_PUBLIC,
    LARGEST_TEXT,
    LONGEST_LABEL,
    MOST_EXAMPLES,
    MOST_LABELS,
)
from sottovoce.core.text.words import iter_words
from sottovoce.edge.state.opaque_ids import OpaqueIds
from sottovoce.edge.state.outbox import Outbox, setting_of
from sottovoce.edge.state.sealing import Seal
from sottovoce.edge.tasks.adapters import trained_by_cloud
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

__all__ = [
    "Base",
    "base_of",
    "check_example",
    "check_labels",
    "check_number",
    "check_private",
    "choice",
    "label_charge",
    "labelled",
    "numbered",
]


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
        settings: the requested settings.
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
    """Refuse labels that cannot be told apart, given their counts (InvalidInput)."""
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
        training: its training settings.
        setting: the privacy setting of its examples.
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
    """Return the adapter ``name`` as a base for more examples.

    Raises:
        NotFound, NotReady: see `trained_by_cloud`.
    """
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
