"""Writes the backbone as a device runs it: an int8 ONNX graph, and an int8 token table beside it.

Why it is here: adapters learnt in the cloud can answer at home only over the same backbone, on
machines without torch. One graph serves every adapter: low-rank updates, prompts and prefixes are
its inputs, with as many rows as an adapter has. `sottovoce.core.local.encoder` reads what is
written here.

Matrices are bytes with a scale for every `_BLOCK` numbers of a column, and so are the activations
they meet (ONNX Runtime's MatMulNBits). Rounding activations with one scale a matrix, as
`quantize_dynamic` and optimum's exporter do, left a cosine of .991 on film reviews, .982 at worst;
this leaves .9989 and .996, in the same bytes.
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor, nn

from sottovoce.cloud.models.backbone import LoadedBackbone, input_embeddings
from sottovoce.cloud.models.batches import MAX_TOKENS
from sottovoce.cloud.models.encoder import special_tokens
from sottovoce.cloud.models.methods.lora import targets
from sottovoce.cloud.models.rows import prefix_width
from sottovoce.core.errors import InvalidInput
from sottovoce.core.local.encoder import DESCRIPTION, FORMAT, NETWORK, TABLE
from sottovoce.core.text.onnx_models import session
from sottovoce.models.onnx_export import prepare, write_onnx

__all__ = ["LEAST_LIKENESS", "to_onnx", "write"]

LEAST_LIKENESS: Final = 0.995
"""Mean cosine of what the graph and torch make of random tokens; below it nothing is written."""

_BITS: Final = 8
_BLOCK: Final = 128
_TRIED: Final = 32
_ZERO: Final = 128
"""What stands for 0 in a byte without a sign."""


def write(backbone: LoadedBackbone, folder: Path) -> None:
    """Writes ``encoder.onnx``, ``table.npy`` and ``encoder.json`` into a new ``folder``.

    Raises:
        InvalidInput: the backbone is of a kind that devices do not run, or too much is lost.
    """
    model = backbone.model
    # Versions of `transformers` that know absolute places alone do not name them.
    places = getattr(model.config, "position_embedding_type", "absolute")
    if model.config.model_type != "bert" or places != "absolute":
        raise InvalidInput(
            f"no device runs a backbone of type {model.config.model_type!r} with {places} places",
            fix="build without --encoder, or over an encoder like BERT",
            subject="backbone",
        )
    folder.mkdir()
    network, table = to_onnx(model), _table(input_embeddings(backbone))
    if (found := _likeness(network, backbone)) < LEAST_LIKENESS:
        raise InvalidInput(
            f"the backbone does not bear rounding: a cosine of {found:.4f} with its own states",
            fix="build without --encoder, or over another backbone",
            subject="backbone",
        )
    (folder / NETWORK).write_bytes(network)
    np.save(folder / TABLE, table)
    before, after = special_tokens(backbone.tokenizer)
    layers = [model.get_submodule(name) for name in targets(model, False)]
    facts = {
        "format": FORMAT,
        "backbone_sha256": backbone.sha256,
        "width": backbone.hidden_size,
        "tokens": len(table),
        "positions": model.config.max_position_embeddings,
        "longest": min(MAX_TOKENS, model.config.max_position_embeddings),
        "before": before,
        "after": after,
        "layers": [
            (name, layer.in_features, layer.out_features)
            for name, layer in zip(targets(model, False), layers, strict=True)
        ],
        "prefix": prefix_width(model.config),
    }
    (folder / DESCRIPTION).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def to_onnx(model: Any, *, int8: bool = True) -> bytes:
    """The graph for one text of n tokens, P of them virtual, under one adapter.

    ``embeddings`` float32 (n, width), ``weights`` (n,), ``lora`` (rank, `Shape.lora`), ``prefix``
    (virtual keys, `Shape.prefix`) -> ``pooled`` float32 (width,), the states weighted and summed.

    Args:
        model: a `transformers` BertModel.
        int8: round the matrices; without, what the graph computes can be compared with torch.
    """
    single = _Single(model).eval()
    example = tuple(
        torch.randn(rows, width) if width else torch.ones(rows)
        for rows, width in ((3, single.width), (3, 0), (2, single.lora), (2, single.prefix))
    )
    with tempfile.TemporaryDirectory() as scratch:
        exported, ready = (Path(scratch) / f"{name}.onnx" for name in ("float", "ready"))
        inputs = {"embeddings": "n", "weights": "n", "lora": "rank", "prefix": "keys"}
        write_onnx(single, example, exported, inputs=inputs, output="pooled")
        prepare(exported, ready)
        graph = onnx.load(ready)
    if int8:
        _round(graph)
    return bytes(graph.SerializeToString())


class _Single(nn.Module):
    """One text through a BERT, with what an adapter adds given beside it."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        self.bert = bert
        self.width = bert.config.hidden_size
        self.heads = bert.config.num_attention_heads
        self.depth = bert.config.num_hidden_layers
        self.prefix = prefix_width(bert.config)
        self.lora = 2 * self.width * len(targets(bert, False))

    def forward(self, embeddings: Tensor, weights: Tensor, lora: Tensor, prefix: Tensor) -> Tensor:
        own = self.bert.embeddings
        places = torch.cumsum(torch.ones_like(weights), 0).long() - 1
        state = own.LayerNorm(
            embeddings + own.position_embeddings(places) + own.token_type_embeddings.weight[0]
        )
        updates = iter(torch.split(lora, self.width, 1))
        virtual = iter(torch.split(prefix, self.width, 1))

        def linear(layer: nn.Module, inputs: Tensor) -> Tensor:
            a, b = next(updates), next(updates)  # (rank, width) each
            return layer(inputs) + (inputs @ a.T) @ b  # type: ignore[no-any-return]

        def by_head(rows: Tensor) -> Tensor:
            return rows.view(-1, self.heads, self.width // self.heads).transpose(0, 1)

        for layer in self.bert.encoder.layer:
            attention, output = layer.attention.self, layer.attention.output
            query, key, value = (
                linear(part, state) for part in (attention.query, attention.key, attention.value)
            )
            key, value = torch.cat([next(virtual), key]), torch.cat([next(virtual), value])
            scores = by_head(query) @ by_head(key).transpose(1, 2)  # (heads, n, keys + n)
            shares = torch.softmax(scores / math.sqrt(self.width // self.heads), -1)
            seen = (shares @ by_head(value)).transpose(0, 1).reshape(-1, self.width)
            state = output.LayerNorm(linear(output.dense, seen) + state)
            wide = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(state))
            state = layer.output.LayerNorm(layer.output.dense(wide) + state)
        pooled: Tensor = weights @ state
        return pooled


def _round(graph: onnx.ModelProto) -> None:
    """Puts bytes in the place of every matrix that is part of the file."""
    kept = {each.name: each for each in graph.graph.initializer}
    nodes = []
    for node in graph.graph.node:
        if node.op_type not in ("MatMul", "Gemm") or node.input[1] not in kept:
            nodes.append(node)
            continue
        name, result = node.input[1], node.output[0]
        matrix = numpy_helper.to_array(kept.pop(name))
        # A Gemm holds (outputs, inputs), a MatMul (inputs, outputs).
        rows, scales = _blocks(matrix if node.op_type == "Gemm" else matrix.T)
        kept[f"{name}.rows"] = numpy_helper.from_array(rows, f"{name}.rows")
        kept[f"{name}.scales"] = numpy_helper.from_array(scales, f"{name}.scales")
        inputs = matrix.shape[1 if node.op_type == "Gemm" else 0]
        bias = node.input[2:]
        product = f"{result}.product" if bias else result
        nodes.append(
            helper.make_node(
                "MatMulNBits",
                [node.input[0], f"{name}.rows", f"{name}.scales"],
                [product],
                domain="com.microsoft",
                K=inputs,
                N=len(rows),
                bits=_BITS,
                block_size=_BLOCK,
                accuracy_level=4,  # products of bytes, where a processor has them
            )
        )
        if bias:
            nodes.append(helper.make_node("Add", [product, bias[0]], [result]))
    del graph.graph.node[:], graph.graph.initializer[:]
    graph.graph.node.extend(nodes)
    graph.graph.initializer.extend(kept.values())
    graph.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def _blocks(matrix: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(outputs, inputs) as MatMulNBits takes it: (outputs, blocks, block) and its scales."""
    outputs, inputs = matrix.shape
    blocks = -(-inputs // _BLOCK)
    padded = np.pad(matrix, ((0, 0), (0, blocks * _BLOCK - inputs)))
    apart = padded.reshape(outputs, blocks, _BLOCK)
    scales = np.maximum(np.abs(apart).max(axis=2, keepdims=True), 1e-12) / (_ZERO - 1)
    whole = (np.rint(apart / scales) + _ZERO).astype(np.uint8)
    return whole, scales.reshape(-1).astype(np.float32)


@torch.no_grad()
def _likeness(network: bytes, backbone: LoadedBackbone) -> float:
    """Mean cosine of the graph's and the model's own pooled states, over texts of random tokens."""
    single = _Single(backbone.model)
    opened = session(network)
    random, table = np.random.default_rng(0), input_embeddings(backbone)
    cosines = []
    for length in random.integers(4, 64, _TRIED):
        rows = table[random.integers(len(table), size=length)]
        states = backbone.model(inputs_embeds=torch.from_numpy(rows)[None]).last_hidden_state
        wanted = states[0].mean(0).numpy()
        feed = {
            "embeddings": rows,
            "weights": np.full(length, 1 / length, np.float32),
            "lora": np.zeros((0, single.lora), np.float32),
            "prefix": np.zeros((0, single.prefix), np.float32),
        }
        (found,) = opened.run(["pooled"], feed)
        cosines.append(found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted))
    return float(np.mean(cosines))


def _table(embeddings: NDArray[np.float32]) -> NDArray[np.int8]:
    """Whole numbers, and the scale of a row in its last four bytes: (tokens, width + 4)."""
    scales = np.maximum(np.abs(embeddings).max(axis=1, keepdims=True), 1e-12) / 127
    whole = np.rint(embeddings / scales).astype(np.int8)
    return np.concatenate([whole, scales.astype("<f4").view(np.int8)], axis=1)
