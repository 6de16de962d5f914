"""Check a customisation's examples, one by one and together.

Examples that the cloud would refuse are refused here, before any privacy is spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sottovoce.core.errors import InvalidInput
from sottovoce.core.rpc.limits import (
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
