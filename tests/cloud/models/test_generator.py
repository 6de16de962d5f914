"""An adapter that was trained to write says the same once it was saved and read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models import adapters, decoder
from sottovoce.cloud.models.decoder import TextGenerator
from sottovoce.cloud.models.methods import Full, Lora, Method, Prefix, Prompt
from sottovoce.cloud.models.rows import Row, run
from sottovoce.core.errors import SottovoceError
from tests.support import decoders

METHODS = (Lora(rank=3), Lora(rank=2, feed_forward=True), Prompt(4), Prefix(3), Full())


@pytest.mark.parametrize(
    ("family", "method"),
    [
        *(("qwen2", method) for method in METHODS),
        ("llama", Full()),  # with output weights of its own
        ("gemma3", Lora()),
        ("gemma3", Prefix(3)),
    ],
    ids=repr,
)
def test_saved_and_read_again_it_gives_the_same_logits(
    family: str, method: Method, tmp_path: Path
) -> None:
    folder = str(decoders.save(tmp_path / "tiny", family))
    spent = decoder.load(folder)
    torch.manual_seed(1)
    model = TextGenerator(spent, method).eval()
    with torch.no_grad():
        for tensor in model.trained().values():
            tensor.add_(torch.randn_like(tensor) * 0.05)
    ids = torch.randint(3, 300, (3, 30))  # past gemma3's window
    attention = (torch.arange(30) < torch.tensor([[30], [22], [7]])).long()
    with torch.no_grad():
        wanted = spent.logits(model.states(ids, attention))

    adapters.save(tmp_path / "adapter", model, (), spent.backbone, {"job": "j"})
    opened, adapter = decoder.load(folder), adapters.load(tmp_path / "adapter")
    row = adapter.method.row(opened.stack, adapter.tensors)
    with torch.no_grad():
        states = run(opened.stack, ids, attention, [row] * 3)
        found = opened.logits(states, row.weights)
        plain = opened.logits(run(opened.stack, ids, attention, [Row()] * 3))

    there = attention.bool()
    torch.testing.assert_close(found[there], wanted[there], atol=1e-4, rtol=1e-4)
    assert (found - plain)[there].abs().max() > 0.01
    assert (adapter.task, adapter.labels, adapter.weight) == ("generation", (), None)
    assert adapter.backbone_sha256 == opened.backbone.sha256
    assert not (tmp_path / "adapter" / "head.safetensors").exists()


@pytest.mark.parametrize("method", [Lora(), Full()], ids=repr)
@pytest.mark.parametrize("family", ["gemma3", "llama"])  # output weights of the stack, and others
def test_what_a_token_costs_is_learnt_from_as_if_all_logits_were_kept(
    family: str, method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "_ROWS", 4)
    made = []
    whole = decoder.Decoder.logits
    monkeypatch.setattr(
        decoder.Decoder, "logits", lambda self, *given: made.append(1) or whole(self, *given)
    )
    spent = decoder.load(str(decoders.save(tmp_path / "tiny", family)))
    model = TextGenerator(spent, method).eval()
    ids, targets = torch.randint(3, 300, (1, 10)), torch.randint(3, 300, (10,))
    weights = torch.linspace(0, 2, 10)  # positions do not count alike

    def learnt(losses: Callable[[Tensor], Tensor]) -> list[Tensor]:
        states = model.states(ids, torch.ones_like(ids))[0]
        trained = [*model.trained().values()]
        return [*torch.autograd.grad((losses(states) * weights).sum(), [states, *trained])]

    made.clear()
    found = learnt(lambda states: model.missed(states, targets)[0])
    tied = method == Full() and family == "gemma3"
    assert len(made) == (
        6 if tied else 3
    )  # of ten positions, four at a time; again where they must
    wanted = learnt(lambda states: F.cross_entropy(spent.logits(states), targets, reduction="none"))
    assert any(bool(each.abs().max() > 1e-3) for each in wanted)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)

    with torch.no_grad():
        states = model.states(ids, torch.ones_like(ids))[0]
        losses, hits = model.missed(states, targets)
        logits = spent.logits(states)
    torch.testing.assert_close(losses, F.cross_entropy(logits, targets, reduction="none"))
    assert hits.tolist() == (logits.argmax(-1) == targets).tolist()


def test_an_adapter_does_not_fit_another_shape(tmp_path: Path) -> None:
    spent = decoder.load(str(decoders.save(tmp_path / "tiny")))
    other = decoder.load(str(decoders.save(tmp_path / "other", hidden_size=32)))
    for method in METHODS:
        fresh = decoder.load(str(tmp_path / "tiny"))
        tensors = TextGenerator(fresh, method).adapted.tensors()
        with pytest.raises(SottovoceError, match="does not fit"):
            method.row(other.stack, tensors)
    assert spent.backbone.sha256 != other.backbone.sha256
