"""Options name a method, it is written and read back, and what cannot run is refused."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import torch

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone, methods
from sottovoce.cloud.models.batches import SUBTOKENS
from sottovoce.cloud.models.methods import Full, Lora, Method, Prefix, Prompt, from_options, lora
from sottovoce.core.bundle.encoder import MAX_TOKENS
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.rpc import training_settings


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (TrainingOptions(), Lora()),
        (TrainingOptions(rank=4), Lora(rank=4, alpha=8)),
        (TrainingOptions("qlora"), Lora(quantized=True)),
        (TrainingOptions("prompt"), Prompt()),
        (TrainingOptions("prompt", virtual_tokens=7), Prompt(7)),
        (TrainingOptions("prefix"), Prefix()),
        (TrainingOptions("prefix", virtual_tokens=3), Prefix(3)),
        (TrainingOptions("full"), Full()),
    ],
)
def test_options_name_a_method_and_files_give_it_back(
    options: TrainingOptions, method: Method
) -> None:
    assert from_options(options) == method
    written = json.loads(json.dumps(methods.to_dict(method)))
    assert methods.from_dict(written) == method


@pytest.mark.parametrize(
    ("facts", "method"),
    [
        (
            {
                "method": "lora",
                "lora": {"rank": 4, "alpha": 8, "feed_forward": False, "quantized": True},
            },
            Lora(rank=4, alpha=8, quantized=True),
        ),
        ({"method": "prompt", "prompt": {"tokens": 6}}, Prompt(6)),
        ({"method": "prefix", "prefix": {"tokens": 6}}, Prefix(6)),
        ({"method": "full", "full": {}}, Full()),
    ],
)
def test_the_form_in_files_stays_the_same(facts: dict[str, object], method: Method) -> None:
    assert methods.from_dict(facts) == method


@pytest.mark.parametrize(
    "facts",
    [{}, {"method": "x"}, {"method": "lora", "lora": {"x": 1}}, {"method": "lora", "lora": "x"}],
)
def test_other_descriptions_are_refused(facts: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError)):
        methods.from_dict(facts)


def test_methods_are_called_alike_on_both_sides() -> None:
    assert set(methods.METHODS) == set(training_settings.METHODS)


def test_qlora_is_refused_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    qlora = from_options(TrainingOptions("qlora"))
    for name in methods.METHODS.keys() - {"qlora"}:
        from_options(TrainingOptions(name)).check_available()
    monkeypatch.setattr(lora, "version", lambda _: "0.49.2")
    for there, gpu, refused in (
        (False, False, "bitsandbytes>=0.50"),
        (True, False, "bitsandbytes>=0.50"),
        (False, True, "bitsandbytes,"),
        (True, True, ""),
    ):
        monkeypatch.setattr(lora, "find_spec", lambda _, there=there: object() if there else None)
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        with pytest.raises(NotReady, match=refused) if refused else nullcontext():
            qlora.check_available()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(lora, "version", lambda _: "0.50.2")
    qlora.check_available()


def test_what_stands_in_front_must_leave_room_for_a_text(bert: str) -> None:
    loaded = backbone.load(bert)
    assert loaded.positions is not None
    room = loaded.positions - MAX_TOKENS

    def virtual(method: str, tokens: int, plain: int = 0) -> TrainingOptions:
        return TrainingOptions(method, bool(plain), plain, virtual_tokens=tokens)

    fits = (
        virtual("lora", 0, room // SUBTOKENS),
        virtual("prompt", room),
        virtual("prompt", room - 4 * SUBTOKENS, 4),
        virtual("prefix", loaded.positions),
        virtual("prefix", loaded.positions, 4),
    )
    for options in fits:
        methods.check(options, loaded)
    too_much = (
        (virtual("lora", 0, room // SUBTOKENS + 1), "plain_tokens", "fewer plain tokens"),
        (virtual("prompt", room + 1), "virtual_tokens", f"at most {room} virtual"),
        (virtual("prompt", room, 4), "virtual_tokens", f"at most {room - 4 * SUBTOKENS} virtual"),
        (virtual("prefix", loaded.positions + 1), "virtual_tokens", f"most {loaded.positions} v"),
    )
    for options, field, fix in too_much:
        with pytest.raises(InvalidInput, match="positions") as caught:
            methods.check(options, loaded)
        assert caught.value.subject == f"training.{field}"
        assert fix in caught.value.fix
