"""The job's data types: its states, options and progress.

Only values, so that the trainer can report progress without a database.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sottovoce.core.errors import NotReady
from sottovoce.core.rpc.limits import FEWEST_EXAMPLES, MOST_LABELS


class State(enum.StrEnum):
    """A job's state; the wire's JobState has the same names."""

    UPLOADING = "UPLOADING"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.UPLOADING: frozenset({State.QUEUED, State.CANCELLED}),
    State.QUEUED: frozenset({State.RUNNING, State.CANCELLED}),
    State.RUNNING: frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}
FINAL = frozenset(state for state, following in TRANSITIONS.items() if not following)


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The tenant's training options; 0 takes the trainer's default.

    Attributes:
        method: the training method, by a name in `sottovoce.cloud.models.methods`.
        reconstruction: also learn to name the plain tokens (RAPT, section III-B2).
        plain_tokens: number of plain tokens in front of each example.
        virtual_tokens: length of the prompt or the prefix.
        rank: of LoRA's update.
        label_words: a decoder scores the words of the labels; no head is trained.
        reconstruction_width: width of the reconstruction head's hidden layer.
        reconstruction_weight: weight of its loss; the task's loss counts 1.
        dp_epsilon: privacy budget of training, see `training/dp_sgd/trainer.py`; 0: not private
        dp_delta: with ``dp_epsilon``; 0 takes min(1e-5, 1 / (10 examples)).
        task: "classification", or "generation": a decoder learns to write outputs.
        continues: start from the adapter of the job's name.
        pate: stay within ``dp_epsilon`` by PATE (see `sottovoce.core.privacy.votes`).
    """

    method: str = "lora"
    reconstruction: bool = False
    plain_tokens: int = 0
    epochs: int = 0
    batch_size: int = 0
    learning_rate: float = 0.0
    seed: int = 0
    virtual_tokens: int = 0
    rank: int = 0
    label_words: bool = False
    reconstruction_width: int = 0
    reconstruction_weight: float = 0.0
    dp_epsilon: float = 0.0
    dp_delta: float = 0.0
    task: str = "classification"
    pate: bool = False
    continues: bool = False

    @property
    def writes(self) -> bool:
        """Return whether the job trains a decoder."""
        return self.task == "generation"


@dataclass(frozen=True, slots=True)
class Release:
    """The privatisation of the examples."""

    mechanism: str
    eta: float
    level: str
    bundle_id: str
    policy: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of training; accuracy is the best so far on the held-out part."""

    epoch: int = 0
    epochs: int = 0
    step: int = 0
    steps: int = 0
    loss: float = 0.0
    reconstruction_loss: float = 0.0
    held_out_accuracy: float = 0.0
    examples_per_second: float = 0.0
    seconds_left: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """A job as stored.

    ``next_sequence`` counts the examples received, ``bytes`` their size. ``trained`` is the time in
    the trainer so far, in seconds, over restarts. ``trace`` is the ``traceparent`` of the call that
    queued the job, if that call was traced.
    """

    id: str
    tenant: str
    adapter: str
    state: State
    training: TrainingOptions
    release: Release
    next_sequence: int
    attempts: int
    cancel_requested: bool
    created: float
    updated: float
    message: str = ""
    labels: tuple[str, ...] = ()
    progress: Progress = field(default_factory=Progress)
    bytes: int = 0
    trained: float = 0.0
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A released text with its label ("" for a public text of PATE), or with its output for
    generation.

    Plain tokens are only for reconstruction.
    """

    text: str
    label: str = ""
    plain_tokens: tuple[str, ...] = ()
    plain_token_ids: tuple[int, ...] = ()
    output: str = ""


def check_labels(counts: Counter[str], most: int = MOST_LABELS) -> tuple[str, ...]:
    """Return the labels in the order of the adapter's outputs.

    Raises:
        NotReady: too few examples, a single label, too many labels, or a label seen only once; the
            error names the problem and the fix.
    """
    check_number(counts.total())
    labels = tuple(sorted(counts))
    if len(labels) < 2:
        raise NotReady(
            f"every example has the label {labels[0]!r}",
            fix="give examples of at least 2 labels",
            subject="label",
        )
    if len(labels) > most:
        raise NotReady(
            f"the examples have {len(labels)} labels, at most {most} are allowed",
            fix="check that the label column holds classes, not texts",
            subject="label",
        )
    once = [label for label in labels if counts[label] < 2]
    if once:
        shown = ", ".join(repr(label) for label in once[:5])
        raise NotReady(
            f"{len(once)} label(s) seen only once: {shown}",
            fix="give at least 2 examples of each label, or drop it",
            subject="label",
        )
    return labels


def check_number(examples: int) -> None:
    """Raise `NotReady` for a job of too few examples."""
    if examples < FEWEST_EXAMPLES:
        raise NotReady(
            f"the job holds {examples} examples, training needs at least {FEWEST_EXAMPLES}",
            fix="add examples and customise again",
            subject="examples",
        )


class Stopped(Exception):
    """`Watch.should_stop` ended the run; a checkpoint was written if it has a file."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Callbacks that observe a run and may end it.

    Attributes:
        on_progress: called after every step.
        on_checkpoint: called after a checkpoint was written.
        should_stop: called before every step, and before every batch of a pass over all texts.
    """

    on_progress: Callable[[Progress], None] | None = None
    on_checkpoint: Callable[[], None] | None = None
    should_stop: Callable[[], bool] | None = None

    def go_on(self) -> None:
        """Raise `Stopped` if the run should stop."""
        if self.should_stop and self.should_stop():
            raise Stopped

    def told(self, progress: Progress) -> None:
        if self.on_progress:
            self.on_progress(progress)

    def kept(self) -> None:
        if self.on_checkpoint:
            self.on_checkpoint()


UNWATCHED: Final = Watch()
