"""What a customisation's examples must be, one by one and together.

Why it is here: what the cloud would refuse is refused on the device, before any privacy is spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sottovoce.core.errors import InvalidInput
from sottovoce.core.wire.limits import (
    FEWEST_EXAMPLES,
    FEWEST_PRIVATE_EXAMPLES,
    FEWEST_PUBLIC,
    LARGEST_TEXT,
    LONGEST_LABEL,
    MOST_EXAMPLES,
    MOST_LABELS,
)
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["check_example", "check_labels", "check_number", "check_private", "numbered"]


def check_example(sequence: int, example: agent.LabelledText, *, writes: bool) -> None:
    """One example: its length, and that it has what the task needs; ``writes`` for generation.

    Raises:
        InvalidInput: never gives its text; `numbered` says which it is.
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
    """Says of what is wrong with one (InvalidInput) which it is, counted from 1."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(
            f"{what} {sequence + 1}: {error.problem}", fix=error.fix, subject=error.subject
        ) from error


def check_private(settings: agent.CustomizationSettings, examples: int, public: int) -> None:
    """Whether private training, and PATE, have enough to learn from.

    Args:
        settings: as asked for.
        examples: those with a label.
        public: those without.

    Raises:
        InvalidInput: they have not; or public texts without PATE.
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
    """Refuses fewer examples than anything can be trained on (InvalidInput)."""
    if examples < FEWEST_EXAMPLES:
        raise InvalidInput(
            f"{examples} examples are too few",
            fix=f"give at least {FEWEST_EXAMPLES}",
            subject="examples",
        )


def check_labels(seen: Counter[str]) -> None:
    """Refuses labels that cannot be told apart, by how often each came (InvalidInput)."""
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
