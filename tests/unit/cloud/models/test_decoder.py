"""Decoders open whole, write as `transformers` has them write, or are refused with a fix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name
from transformers import GPT2Config, GPT2LMHeadModel

from sottovoce.cloud.models import adapters, decoder
from sottovoce.cloud.models.decoder import (
    ATTENTION,
    Cache,
    Decoder,
    Part,
    TextGenerator,
    advance,
    position_bytes,
)
from sottovoce.cloud.models.methods import Full, Lora, Method, Prefix, Prompt
from sottovoce.cloud.models.rows import Row, run
from sottovoce.core.errors import InvalidInput, NotFound, SottovoceError
from tests.support import decoders


@pytest.mark.parametrize("family", decoders.FAMILIES)
def test_every_family_opens_and_says_what_an_engine_needs(family: str, tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny", family)

    opened = decoder.load(str(folder))

    assert opened.name == "tiny"
    config = opened.stack.config
    assert (config.num_hidden_layers, config.hidden_size) == (2, 48)
    assert (opened.vocabulary, opened.tokens, opened.context) == (
        640,
        len(opened.tokenizer),
        512,
    )
    assert not opened.model.training
    assert not any(p.requires_grad for p in opened.model.parameters())
    # An answer ends where the config says and where the template's turns do.
    assert opened.ends == {0, opened.tokenizer.convert_tokens_to_ids("<|im_end|>")}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_stack_and_output_give_the_models_logits(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny", "gemma3", final_logit_softcapping=0.2)
    opened = decoder.load(str(folder), dtype=dtype)
    ids = torch.arange(40)[None]  # past the sliding window

    with torch.no_grad():
        states = opened.stack(input_ids=ids).last_hidden_state
        wanted = opened.model(input_ids=ids).logits

    assert states.dtype == wanted.dtype == dtype
    assert opened.logits(states).dtype == torch.float32
    torch.testing.assert_close(opened.logits(states), wanted.float(), atol=2e-3, rtol=2e-2)


def test_weights_and_tokenizer_tell_decoders_apart(tmp_path: Path) -> None:
    one = decoder.load(str(decoders.save(tmp_path / "one")))
    assert decoder.load(str(decoders.save(tmp_path / "same"))).backbone.sha256 == (
        one.backbone.sha256
    )

    words = tmp_path / "same" / "tokenizer.json"
    words.write_text(words.read_text() + "\n")
    assert decoder.load(str(tmp_path / "same")).backbone.sha256 != one.backbone.sha256

    _change(tmp_path / "one", lambda name, t: t + 1 if name == "model.norm.weight" else t)
    assert decoder.load(str(tmp_path / "one")).backbone.sha256 != one.backbone.sha256


def test_weights_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})

    with pytest.raises(InvalidInput, match="lacks some of its weights"):
        decoder.load(str(folder))


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny")
    _change(folder, lambda name, t: t.fill_(torch.nan) if "layers.1.mlp.up" in name else t)

    with pytest.raises(InvalidInput, match="no numbers"):
        decoder.load(str(folder))


def test_a_tokenizer_that_loses_letters_is_refused(tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny")
    file = folder / "tokenizer.json"
    facts = json.loads(file.read_text())
    facts["normalizer"] = {"type": "Lowercase"}
    file.write_text(json.dumps(facts))

    with pytest.raises(InvalidInput, match="does not give back what it is given"):
        decoder.load(str(folder))


def test_tokens_without_embeddings_are_refused(tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny", vocab_size=398)

    with pytest.raises(InvalidInput, match="more tokens than the model"):
        decoder.load(str(folder))


def test_pickles_encoders_and_code_are_refused(tiny_encoder_decoder: Path, tmp_path: Path) -> None:
    pickled = decoders.save(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match="lacks safetensors"):
        decoder.load(str(pickled))

    for folder in (tiny_encoder_decoder, "default"):
        with pytest.raises(InvalidInput, match="not a language model that writes"):
            decoder.load(str(folder))

    coded = decoders.save(tmp_path / "coded")
    facts = json.loads((coded / "config.json").read_text())
    facts |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}
    (coded / "config.json").write_text(json.dumps(facts))
    (coded / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InvalidInput, match="cannot be read") as caught:
        decoder.load(str(coded))
    assert not (tmp_path / "ran").exists()
    assert str(tmp_path) not in str(caught.value)

    with pytest.raises(NotFound):
        decoder.load(str(tmp_path / "absent"))


def _change(folder: Path, change: Callable[[str, torch.Tensor], Any]) -> None:
    file = folder / "model.safetensors"
    weights = {name: change(name, t) for name, t in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})


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


FLOAT = torch.float32


def opened(folder: Path, family: str) -> Decoder:
    if family != "gpt2":
        return decoder.load(str(decoders.save(folder, family, sliding_window=8)))
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=640, n_embd=48, n_layer=2, n_head=4, n_positions=128)
    config.eos_token_id = config.bos_token_id = 0
    GPT2LMHeadModel(config).save_pretrained(folder)
    decoders.tokenizer().save_pretrained(folder)
    return decoder.load(str(folder))


def whole(found: Decoder, ids: list[int]) -> Tensor:
    """The last state by `transformers` alone."""
    with torch.no_grad():
        return found.stack(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]  # type: ignore[no-any-return]


@pytest.mark.parametrize("family", [*decoders.FAMILIES, "gpt2"])
def test_parts_of_any_size_come_to_the_same(family: str, tmp_path: Path) -> None:
    found = opened(tmp_path / "tiny", family)
    torch.manual_seed(1)
    texts = [torch.randint(3, 300, (length,)).tolist() for length in (30, 11, 19)]
    expected = torch.stack([whole(found, ids) for ids in texts])
    found.stack.config._attn_implementation = ATTENTION
    for sizes in ((30, 11, 19), (7, 3, 1), (1, 5, 19)):
        caches = [Cache.begun(found.stack, Row(), len(ids), FLOAT) for ids in texts]
        last: dict[int, Tensor] = {}
        while going := [n for n, ids in enumerate(texts) if caches[n].length < len(ids)]:
            parts = [
                Part(Row(), caches[n], None, texts[n][caches[n].length :][: sizes[n]])
                for n in going
            ]
            last |= zip(going, advance(found.stack, parts), strict=True)
        states = torch.stack([last[n] for n in range(3)])
        torch.testing.assert_close(states, expected, atol=1e-4, rtol=1e-4)


def test_a_pass_that_fails_is_not_remembered(tmp_path: Path) -> None:
    found = opened(tmp_path / "tiny", "llama")
    found.stack.config._attn_implementation = ATTENTION
    cache = Cache.begun(found.stack, Row(), 8, FLOAT)
    first = advance(found.stack, [Part(Row(), cache, None, [5, 6, 7])])
    with pytest.raises((IndexError, RuntimeError)):
        advance(found.stack, [Part(Row(), cache, None, [8, 10_000])])  # no such token
    assert cache.length == 3
    again = Cache.begun(found.stack, Row(), 8, FLOAT)
    assert torch.equal(advance(found.stack, [Part(Row(), again, None, [5, 6, 7])]), first)
    one, other = (advance(found.stack, [Part(Row(), c, None, [9])]) for c in (cache, again))
    torch.testing.assert_close(one, other)


def test_what_a_row_remembers_is_as_large_as_is_said(tmp_path: Path) -> None:
    found = opened(tmp_path / "tiny", "qwen2")
    for dtype in (FLOAT, torch.bfloat16):
        cache = Cache.begun(found.stack, Row(), 10, dtype)
        assert cache.held.nbytes == 10 * position_bytes(found.stack, dtype)
