"""The options name a method, the method is written and read back, and QLoRA is refused in time."""

from __future__ import annotations

import json

import pytest
import torch

from sottovoce.cloud.job import Method, TrainingOptions
from sottovoce.cloud.models import methods
from sottovoce.cloud.models.methods import Full, Lora, Prefix, Prompt, check_available, from_options
from sottovoce.core.errors import NotReady


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (TrainingOptions(), Lora()),
        (TrainingOptions(rank=4), Lora(rank=4, alpha=8)),
        (TrainingOptions(method=Method.QLORA), Lora(quantized=True)),
        (TrainingOptions(method=Method.PROMPT), Prompt()),
        (TrainingOptions(method=Method.PROMPT, virtual_tokens=7), Prompt(7)),
        (TrainingOptions(method=Method.PREFIX), Prefix()),
        (TrainingOptions(method=Method.PREFIX, virtual_tokens=3), Prefix(3)),
        (TrainingOptions(method=Method.FULL), Full()),
    ],
)
def test_options_name_a_method_and_files_give_it_back(
    options: TrainingOptions, method: methods.MethodConfig
) -> None:
    assert from_options(options) == method
    written = json.loads(json.dumps(methods.to_dict(method)))
    assert methods.from_dict(written) == method


def test_an_adapter_from_the_time_of_dropout_is_read() -> None:
    facts = {"method": "lora", "lora": {"rank": 4, "alpha": 8, "dropout": 0.05}}
    assert methods.from_dict(facts) == Lora(rank=4, alpha=8)


@pytest.mark.parametrize(
    "facts",
    [{}, {"method": "x"}, {"method": "lora", "lora": {"x": 1}}, {"method": "lora", "lora": "x"}],
)
def test_other_descriptions_are_refused(facts: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError)):
        methods.from_dict(facts)


def test_qlora_is_refused_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for method in Method:
        if method != Method.QLORA:
            check_available(method)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NotReady, match="no GPU"):
        check_available(Method.QLORA)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(methods, "find_spec", lambda _: None)
    with pytest.raises(NotReady, match="bitsandbytes"):
        check_available(Method.QLORA)
    monkeypatch.setattr(methods, "find_spec", lambda _: object())
    check_available(Method.QLORA)
