"""The states form a path that ends."""

from __future__ import annotations

import json
from dataclasses import asdict

from sottovoce.cloud.job import FINAL, TRANSITIONS, State, TrainingOptions
from sottovoce.v1 import training_pb2


def test_every_state_is_on_the_wire_and_in_the_table() -> None:
    assert set(TRANSITIONS) == set(State)
    on_the_wire = {name.removeprefix("JOB_STATE_") for name in training_pb2.JobState.keys()}  # noqa: SIM118
    assert {str(state) for state in State} == on_the_wire - {"UNSPECIFIED"}


def test_a_stored_job_without_a_method_meant_lora() -> None:
    assert TrainingOptions() == TrainingOptions(method="lora")
    stored = json.loads(json.dumps(asdict(TrainingOptions(method="prefix", seed=3))))
    assert TrainingOptions(**stored) == TrainingOptions(method="prefix", seed=3)


def test_every_job_can_end_and_none_returns() -> None:
    def reachable(state: State, path: tuple[State, ...] = ()) -> set[State]:
        assert state not in path, "a cycle"
        following = TRANSITIONS[state]
        return {state}.union(*(reachable(s, (*path, state)) for s in following))

    assert reachable(State.UPLOADING) == set(State)
    assert {State.SUCCEEDED, State.FAILED, State.CANCELLED} == FINAL
    for state in set(State) - FINAL:
        assert State.CANCELLED in TRANSITIONS[state]
