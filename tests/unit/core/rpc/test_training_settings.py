"""Settings that contradict one another are refused, by name and with a fix."""

from __future__ import annotations

import math

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.training_settings import MOST
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import wanted


def test_every_method_of_the_wire_has_a_name() -> None:
    numbers = set(training.Method.values()) - {training.METHOD_UNSPECIFIED}
    assert set(training_settings.METHODS.values()) == numbers


def test_what_the_app_asks_for_is_what_the_cloud_is_asked_for() -> None:
    shared = {f.name for f in training.TrainingSettings.DESCRIPTOR.fields} - {"plain_tokens"}
    shared -= {"continues"}  # decided by `added`
    asked = wanted(
        method=training.METHOD_PREFIX_TUNING,
        reconstruction=True,
        epochs=3,
        batch_size=4,
        learning_rate=0.01,
        seed=5,
        virtual_tokens=6,
        rank=7,
        label_words=True,
        reconstruction_width=8,
        reconstruction_weight=0.5,
        dp_epsilon=3.0,
        dp_delta=1e-6,
        task=training.TASK_GENERATION,
        pate=True,
    )
    given = training_settings.of(asked, 9)
    assert given.plain_tokens == 9
    for name in shared:
        assert getattr(asked.training, name), f"{name} is not tried here"
        assert getattr(given, name) == getattr(asked.training, name)


def test_every_task_of_the_wire_has_a_name() -> None:
    numbers = set(training.Task.values()) - {training.TASK_UNSPECIFIED}
    assert set(training_settings.TASKS.values()) == numbers


@pytest.mark.parametrize("method", ["lora", "qlora", "prompt", "prefix", "full"])
def test_all_but_a_head_can_learn_to_write(method: str) -> None:
    settings = training.TrainingSettings(
        method=training_settings.METHODS[method],
        task=training.TASK_GENERATION,
        reconstruction=True,
        plain_tokens=40,
    )
    training_settings.check(settings)


def test_no_method_means_lora() -> None:
    assert training_settings.of(agent.CustomizationSettings(), 0).method == training.METHOD_LORA
    training_settings.check(training.TrainingSettings(rank=4))


@pytest.mark.parametrize(
    ("method", "rank", "virtual_tokens", "refused"),
    [
        ("lora", 4, 0, ""),
        ("lora", 0, 4, "virtual_tokens"),
        ("qlora", 4, 0, ""),
        ("qlora", 0, 4, "virtual_tokens"),
        ("prompt", 4, 0, "rank"),
        ("prompt", 0, 4, ""),
        ("prefix", 4, 0, "rank"),
        ("prefix", 0, 4, ""),
        ("full", 4, 0, "rank"),
        ("full", 0, 4, "virtual_tokens"),
    ],
)
def test_sizes_go_with_their_methods(
    method: str, rank: int, virtual_tokens: int, refused: str
) -> None:
    settings = training.TrainingSettings(
        method=training_settings.METHODS[method], rank=rank, virtual_tokens=virtual_tokens
    )
    if not refused:
        training_settings.check(settings)
        return
    with pytest.raises(InvalidInput) as caught:
        training_settings.check(settings)
    assert caught.value.subject == f"training.{refused}"
    assert caught.value.fix


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"reconstruction": True}, "plain_tokens"),
        ({"plain_tokens": 3}, "plain_tokens"),
        ({"reconstruction_width": 96}, "reconstruction_width"),
        ({"reconstruction_weight": 0.5}, "reconstruction_weight"),
        ({"learning_rate": 0.2}, "learning_rate"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"learning_rate": math.nan}, "learning_rate"),
        (
            {"reconstruction": True, "plain_tokens": 1, "reconstruction_weight": math.inf},
            "reconstruction_weight",
        ),
        ({"method": 99}, "method"),
        ({"epochs": 201}, "epochs"),
        ({"dp_epsilon": -1.0}, "dp_epsilon"),
        ({"dp_epsilon": math.nan}, "dp_epsilon"),
        ({"dp_epsilon": 51.0}, "dp_epsilon"),
        ({"dp_epsilon": 3.0, "dp_delta": 0.02}, "dp_delta"),
        ({"dp_delta": 1e-5}, "dp_delta"),
        ({"pate": True}, "pate"),
        ({"dp_epsilon": 3.0, "label_words": True}, "label_words"),
        ({"dp_epsilon": 3.0, "reconstruction": True, "plain_tokens": 1}, "reconstruction"),
        ({"dp_epsilon": 3.0, "method": training.METHOD_FULL_FINE_TUNING}, "method"),
        ({"dp_epsilon": 3.0, "method": training.METHOD_QLORA}, "method"),
        ({"task": 9}, "task"),
        ({"task": training.TASK_GENERATION, "method": training.METHOD_HEAD}, "method"),
        ({"task": training.TASK_GENERATION, "label_words": True}, "label_words"),
        ({"task": training.TASK_GENERATION, "dp_epsilon": 3.0}, "dp_epsilon"),
        ({"batch_size": 257}, "batch_size"),
        ({"rank": 257}, "rank"),
        ({"method": training.METHOD_PREFIX_TUNING, "virtual_tokens": 513}, "virtual_tokens"),
        ({"reconstruction": True, "plain_tokens": 65}, "plain_tokens"),
        (
            {"reconstruction": True, "plain_tokens": 1, "reconstruction_width": 4097},
            "reconstruction_width",
        ),
    ],
)
def test_the_field_that_is_wrong_is_named(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        training_settings.check(training.TrainingSettings(**change))
    assert caught.value.subject == f"training.{field}"
    assert caught.value.fix


@pytest.mark.parametrize("method", ["lora", "prompt", "prefix", "head"])
def test_these_can_be_trained_privately(method: str) -> None:
    training_settings.check(
        training.TrainingSettings(
            method=training_settings.METHODS[method], dp_epsilon=3.0, dp_delta=1e-6
        )
    )


def test_the_largest_of_everything_passes() -> None:
    for method, size in (
        (training.METHOD_LORA, "rank"),
        (training.METHOD_PREFIX_TUNING, "virtual_tokens"),
    ):
        left_out = {"rank", "virtual_tokens", "dp_epsilon", "dp_delta"} - {size}
        largest = {
            name: type(getattr(training.TrainingSettings(), name))(most)
            for name, most in MOST.items()
            if name not in left_out
        }
        training_settings.check(
            training.TrainingSettings(method=method, reconstruction=True, **largest)
        )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"plain_tokens": 3}, "training.plain_tokens"),
        ({"plain_sequences": 3}, "plain_sequences"),
        ({"plain_vocabulary": 3}, "plain_vocabulary"),
        ({"plain_sampling": agent.PLAIN_SAMPLING_UNIFORM}, "plain_sampling"),
        ({"reconstruction": True, "plain_sampling": 99}, "plain_sampling"),
        ({"reconstruction": True, "plain_sequences": 10_001}, "plain_sequences"),
    ],
)
def test_plain_tokens_need_the_reconstruction(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        training_settings.check_plain(wanted(**change))
    assert caught.value.subject == field


def test_choices_about_plain_tokens_pass_with_it() -> None:
    training_settings.check_plain(
        wanted(
            reconstruction=True,
            plain_tokens=40,
            plain_sequences=5,
            plain_vocabulary=100,
            plain_sampling=agent.PLAIN_SAMPLING_FREQUENCY,
        )
    )
