"""A trainer's messages to Ray hold no text."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cloud.training import worker
from sottovoce.cloud.training.on_ray import Given, Trainer
from sottovoce.core.errors import ConfigError


def given(state: Path) -> Given:
    return Given(state, "default", "", "", None, threads=1, training_seconds=60)


def raises(error: Exception) -> Any:
    def raising(*_: Any, **__: Any) -> None:
        raise error

    return raising


def test_what_it_cannot_go_on_with_is_told_by_kind_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "Worker", raises(ValueError("canary text")))
    with pytest.raises(RuntimeError, match="ValueError at ") as caught:
        Trainer().work(given(tmp_path))
    shown = "".join(traceback.format_exception(caught.value))
    assert "canary" not in shown


def test_what_it_cannot_start_with_is_given_with_its_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "Worker", raises(ConfigError("no such backbone", fix="mend it")))
    told = Trainer().work(given(tmp_path))
    assert told is not None
    assert told[1:] == ("no such backbone", "mend it")
