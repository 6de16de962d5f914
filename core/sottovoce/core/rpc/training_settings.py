"""Training settings: their names, ranges, help and valid combinations.

A device must spend no privacy on a job that the cloud will refuse, so both sides check by the same
rules. A new setting is a field of ``TrainingSettings``, a line in `FIELDS`, and a field of the
cloud's ``TrainingOptions``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sottovoce.core.errors import InvalidInput
from sottovoce.core.rpc.limits import MOST_PLAIN_TOKENS, MOST_SEQUENCES
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

METHODS: Final[Mapping[str, training.Method]] = MappingProxyType(
    {
        "lora": training.METHOD_LORA,
        "qlora": training.METHOD_QLORA,
        "prompt": training.METHOD_PROMPT_TUNING,
        "prefix": training.METHOD_PREFIX_TUNING,
        "full": training.METHOD_FULL_FINE_TUNING,
        "head": training.METHOD_HEAD,
    }
)
"""The names of the methods, for people and files."""

TASKS: Final[Mapping[str, training.Task]] = MappingProxyType(
    {"classification": training.TASK_CLASSIFICATION, "generation": training.TASK_GENERATION}
)
"""The names of the tasks, for people and files."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of ``TrainingSettings`` that people may set.

    Attributes:
        name: on the wire; with hyphens, of the command's option.
        help: of that option.
        largest: the largest number; the least is 0, which takes the default.
        names: the names of an enum's values.
        added: whether it may be set together with added examples.
    """

    name: str
    help: str
    largest: float = math.inf
    names: Mapping[str, int] | None = None
    added: bool = False


FIELDS: Final = (
    Field(
        "method",
        "What is trained: low-rank updates (qlora: of a backbone in 4 bits), a soft prompt, a "
        "prefix in every layer, the full backbone, or a linear head alone.",
        names=METHODS,
    ),
    Field("rank", "Rank of the updates, with lora and qlora.  [default: the cloud's]", 256),
    Field("virtual_tokens", "Length of the prompt or the prefix.  [default: the cloud's]", 512),
    Field(
        "label_words",
        "Have a decoder score the words of the labels, in place of training a head. The cloud "
        "then gets the labels as you wrote them; otherwise it gets only their ids.",
    ),
    Field(
        "reconstruction", "Train with the reconstruction head, which learns to name plain tokens."
    ),
    Field(
        "plain_tokens",
        "Plain tokens in front of each example, with --reconstruction; 40 as published.  "
        "[default: configured]",
        MOST_PLAIN_TOKENS,
    ),
    Field("reconstruction_width", "Hidden size of the reconstruction head.  [default: 96]", 4096),
    Field(
        "reconstruction_weight",
        "Weight of the reconstruction loss beside the task's loss.  [default: the cloud's]",
        100.0,
    ),
    Field("epochs", "[default: the cloud's]", 200, added=True),
    Field("batch_size", "[default: the cloud's]", 256, added=True),
    Field("learning_rate", "[default: the cloud's]", 0.1, added=True),
    Field("seed", "Seed of the training in the cloud.", 2**64 - 1, added=True),
    Field(
        "dp_epsilon",
        "Train with differential privacy. Epsilon bounds what the adapter and its answers reveal "
        "about any one example, to people who get or ask the adapter and not to the cloud that "
        "trains it; 1 is strong, 8 weak.  [default: off]",
        50.0,
    ),
    Field(
        "dp_delta",
        "Delta, with --dp-epsilon.  [default: 1e-5, or 0.1 / number of examples if less]",
        0.01,
    ),
)
"""The fields in the order of the command's help.

`task`, `pate` and `continues` follow from other arguments.
"""

MOST: Final[Mapping[str, float]] = MappingProxyType(
    {field.name: field.largest for field in FIELDS if math.isfinite(field.largest)}
)
"""Largest value of each number; the least is 0."""

_ADDED = frozenset(field.name for field in FIELDS if field.added)
_BESIDE_ADDED = frozenset(
    {"adapter", "training", "label_epsilon", "request_id", "add", "corrections"}
)
_WITH_RANK = (training.METHOD_LORA, training.METHOD_QLORA)
_PRIVATE = (
    training.METHOD_LORA,
    training.METHOD_PROMPT_TUNING,
    training.METHOD_PREFIX_TUNING,
    training.METHOD_HEAD,
)
_WITH_VIRTUAL_TOKENS = (training.METHOD_PROMPT_TUNING, training.METHOD_PREFIX_TUNING)


def of(settings: agent.CustomizationSettings, plain_tokens: int) -> training.TrainingSettings:
    """Return the settings of a request; ``plain_tokens`` stand in front of each example."""
    wanted = training.TrainingSettings()
    wanted.CopyFrom(settings.training)
    wanted.method = wanted.method or training.METHOD_LORA
    wanted.plain_tokens = plain_tokens
    wanted.continues = False
    return wanted


def added(
    settings: agent.CustomizationSettings, base: training.TrainingSettings
) -> training.TrainingSettings:
    """Return the settings of a request that adds examples to an adapter.

    Args:
        base: the settings that the adapter was trained with.

    Raises:
        InvalidInput: settings that the adapter decides; ``subject`` is the field's name.
    """
    given = {field.name for field, _ in settings.ListFields()} - _BESIDE_ADDED
    given |= {field.name for field, _ in settings.training.ListFields()} - _ADDED
    for name in sorted(given):
        raise InvalidInput(
            f"{name.replace('_', ' ')} together with added examples",
            fix=f"leave {name} out: the adapter keeps what it was trained with",
            subject=name,
        )
    kept = ("method", "rank", "virtual_tokens", "task", "label_words", "dp_epsilon")
    return training.TrainingSettings(
        continues=True,
        **{name: getattr(base, name) for name in kept},
        **{name: getattr(settings.training, name) for name in sorted(_ADDED)},
    )


def check(settings: training.TrainingSettings) -> None:
    """Refuse settings that are out of range, or that contradict one another.

    Raises:
        InvalidInput: ``subject`` is "training." and the field's name.
    """
    method = settings.method or training.METHOD_LORA
    if method not in METHODS.values():
        raise _refused(
            "method",
            "unknown training method",
            f"use one of: {', '.join(METHODS)}; or update the cloud",
        )
    if settings.rank and method not in _WITH_RANK:
        raise _refused(
            "rank", "a rank without LoRA", "leave rank out, or take the method lora or qlora"
        )
    if settings.virtual_tokens and method not in _WITH_VIRTUAL_TOKENS:
        raise _refused(
            "virtual_tokens",
            "virtual tokens without a prompt or a prefix",
            "leave virtual_tokens out, or take the method prompt or prefix",
        )
    if settings.reconstruction and not settings.plain_tokens:
        raise _refused(
            "plain_tokens", "plain_tokens is out of range", "give at least 1 with reconstruction"
        )
    if not settings.reconstruction:
        for name in ("plain_tokens", "reconstruction_width", "reconstruction_weight"):
            if getattr(settings, name):
                raise _without_reconstruction(f"training.{name}", name)
    for name, largest in MOST.items():
        value = getattr(settings, name)
        if not (math.isfinite(value) and 0 <= value <= largest):
            fix = f"give 0 for the default, or up to {largest:g}"
            raise _refused(name, f"{name} is out of range", fix)
    _check_task(settings, method)
    _check_continued(settings)
    _check_private(settings, method)


def _check_task(settings: training.TrainingSettings, method: training.Method) -> None:
    """Refuse for generation the settings of labels, and those without an implementation."""
    if settings.task not in training.Task.values():
        raise _refused("task", "unknown task", f"use one of: {', '.join(TASKS)}")
    if settings.task != training.TASK_GENERATION:
        return
    if method == training.METHOD_HEAD:
        raise _refused("method", "a head alone writes nothing", "train with the method lora")
    for name in ("label_words", "dp_epsilon"):
        if getattr(settings, name):
            problem = f"{name.replace('_', ' ')} together with generation"
            raise _refused(name, problem, f"leave {name} out")


def _check_continued(settings: training.TrainingSettings) -> None:
    """Refuse to continue a generation adapter, or one with settings that cannot be continued."""
    if not settings.continues:
        return
    if settings.task == training.TASK_GENERATION:
        raise _refused("task", "generation together with continues", "train it anew")
    for name in ("reconstruction", "label_words", "dp_epsilon", "pate"):
        if getattr(settings, name):
            problem = f"{name.replace('_', ' ')} together with continues"
            raise _refused(name, problem, f"leave {name} out, or train anew")


def _check_private(settings: training.TrainingSettings, method: training.Method) -> None:
    """Refuse settings that have no private version, or that would only seem private."""
    if not settings.dp_epsilon:
        if settings.dp_delta:
            raise _refused(
                "dp_delta", "a delta without an epsilon", "give dp_epsilon too, or leave delta out"
            )
        if settings.pate:
            raise _refused(
                "pate", "PATE without an epsilon", "give dp_epsilon too: 1 is strong, 8 weak"
            )
        return
    if method not in _PRIVATE:
        names = ", ".join(name for name, kind in METHODS.items() if kind in _PRIVATE)
        raise _refused("method", "this method cannot be trained privately", f"use one of: {names}")
    for name in ("reconstruction", "label_words"):
        if getattr(settings, name):
            raise _refused(
                name,
                f"{name.replace('_', ' ')} together with dp_epsilon",
                "leave one of the two out: it does not go through the clip of private training",
            )


def check_plain(settings: agent.CustomizationSettings) -> None:
    """Refuse choices about plain tokens that cannot be met, or where there are none.

    Raises:
        InvalidInput: ``subject`` is the field's name.
    """
    if settings.plain_sequences > MOST_SEQUENCES:
        raise InvalidInput(
            "too many plain sequences",
            fix=f"take at most {MOST_SEQUENCES}, or 0 for one of its own for every example",
            subject="plain_sequences",
        )
    if settings.plain_sampling not in agent.PlainSampling.values():
        raise InvalidInput(
            "unknown way of drawing plain tokens",
            fix="use PLAIN_SAMPLING_UNIFORM or PLAIN_SAMPLING_FREQUENCY",
            subject="plain_sampling",
        )
    if settings.training.reconstruction:
        return
    for name in ("plain_sequences", "plain_vocabulary", "plain_sampling"):
        if getattr(settings, name):
            raise _without_reconstruction(name, name)
    if settings.training.plain_tokens:
        raise _without_reconstruction("training.plain_tokens", "plain_tokens")


def _refused(name: str, problem: str, fix: str) -> InvalidInput:
    return InvalidInput(problem, fix=fix, subject=f"training.{name}")


def _without_reconstruction(subject: str, name: str) -> InvalidInput:
    return InvalidInput(
        f"{name.replace('_', ' ')} without reconstruction",
        fix=f"turn reconstruction on, or leave {name} out",
        subject=subject,
    )
