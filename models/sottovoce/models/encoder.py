"""Write the backbone as a device runs it: an int8 ONNX graph with an int8 token table beside it.

An adapter trained in the cloud runs on a device only over the same backbone, and a device has no
torch. One graph serves every adapter. Low-rank updates, prompts and prefixes are inputs of the
graph, with as many rows as the adapter has. `sottovoce.core.bundle.encoder` reads the files.

Two exporters write graphs. The built-in one knows BERT, traces our own rendering of its layers, and
takes every kind of adapter. optimum knows the other text encoders of `transformers`. Its graphs
take no prefixes, because not all of these encoders accept keys and values from outside.

Matrices are bytes with a scale for every `_BLOCK` numbers of a column. Activations are rounded in
the same way (ONNX Runtime's MatMulNBits). On film reviews, one scale a matrix, as in
`quantize_dynamic` and optimum's quantizer, left a mean cosine of .991 with the original (at worst
.982). This rounding leaves .9989 (at worst .996) in the same bytes.
"""

from __future__ import annotations

import copy
import json
import math
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

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
from sottovoce.cloud.models.rows import first_position, prefix_width
from sottovoce.core.bundle.encoder import DESCRIPTION, FORMAT, NETWORK, TABLE, Layer, Shape
from sottovoce.core.bundle.tokenizer import VOCABULARY, open_tokenizer, without_vocabulary
from sottovoce.core.errors import BundleMismatch, InvalidInput, NotReady
from sottovoce.core.text.onnx_models import check, runtime, session

Exporter = Literal["built-in", "optimum"]

LEAST_COSINE: Final = 0.995
"""The least mean cosine of the rounded graph's states with torch's. Below it nothing is written."""

_LEAST_EXACT: Final = 0.9999
"""The same before rounding. A graph below it computes something else than torch."""

_BITS: Final = 8
_BLOCK: Final = 128
_TRIED: Final = 32
_ZERO: Final = 128
"""The unsigned byte that stands for 0."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well a graph agrees with torch on texts of random tokens, without an adapter.

    Attributes:
        difference: the largest absolute difference of pooled states before rounding.
        cosine: the mean cosine of pooled states after rounding.
    """

    difference: float
    cosine: float


def write(backbone: LoadedBackbone, folder: Path, exporter: Exporter = "built-in") -> Agreement:
    """Write ``encoder.onnx``, ``table.npy`` and ``encoder.json`` into ``folder``.

    Raises:
        InvalidInput: the exporter or devices do not know this kind of backbone, or the graph does
            not agree with torch.
        NotReady: optimum is asked for and not installed.
    """
    model, tokens = backbone.model, input_embeddings(backbone)
    if tokens.shape[1] != backbone.hidden_size:
        raise _refused(
            f"its token embeddings have {tokens.shape[1]} numbers and its states"
            f" {backbone.hidden_size}, and devices need one width"
        )
    exact = to_onnx(model, exporter, int8=False)
    network = _rounded(exact)
    try:
        check(memoryview(network))
    except ValueError as error:
        raise _refused(f"devices do not run the exported graph: {error}") from error
    positions = (backbone.positions or MAX_TOKENS) - first_position(model)
    before, after = special_tokens(backbone.tokenizer)
    shape = Shape(
        backbone_sha256=backbone.sha256,
        width=backbone.hidden_size,
        tokens=len(tokens),
        positions=positions,
        longest=min(MAX_TOKENS, positions),
        before=tuple(before),
        after=tuple(after),
        layers=tuple(
            Layer(name, layer.in_features, layer.out_features)
            for name in targets(model, False)
            for layer in [model.get_submodule(name)]
        ),
        prefix=prefix_width(model.config) if exporter == "built-in" else 0,
    )
    exact_cosine, difference = _compare(exact, backbone, shape)
    if exact_cosine < _LEAST_EXACT:
        raise _refused(f"the exported graph has a mean cosine of {exact_cosine:.4f} with torch")
    cosine, _ = _compare(network, backbone, shape)
    if cosine < LEAST_COSINE:
        raise _refused(f"rounded to bytes it has a mean cosine of {cosine:.4f} with torch")
    folder.mkdir(exist_ok=True)
    (folder / NETWORK).write_bytes(network)
    write_table(backbone, folder)
    facts = json.dumps({"format": FORMAT, **asdict(shape)}, indent=1)
    (folder / DESCRIPTION).write_text(facts + "\n", encoding="utf-8")
    return Agreement(difference, cosine)


def to_onnx(model: Any, exporter: Exporter = "built-in", *, int8: bool = True) -> bytes:
    """Return the graph for one text of n tokens, P of them virtual, under one adapter.

    ``embeddings`` float32 (n, width), ``weights`` (n,), ``lora`` (rank, `Shape.lora`), and from the
    built-in exporter ``prefix`` (virtual keys, `Shape.prefix`) -> ``pooled`` float32 (width,), the
    weighted sum of the states.

    Args:
        model: a `transformers` model: for the built-in exporter a BertModel, for optimum any text
            encoder that optimum knows.
        int8: round the matrices. Tests compare the graph without rounding with torch.
    """
    with tempfile.TemporaryDirectory() as scratch:
        exported, ready = (Path(scratch) / f"{name}.onnx" for name in ("float", "ready"))
        if exporter == "optimum":
            _export_by_optimum(model, exported)
        else:
            _export_bert(model, exported)
        prepare(exported, ready)
        network = onnx.load(ready).SerializeToString()
    return _rounded(network) if int8 else bytes(network)


def _export_bert(model: Any, exported: Path) -> None:
    # Versions of `transformers` with absolute positions only lack this attribute.
    positions = getattr(model.config, "position_embedding_type", "absolute")
    if model.config.model_type != "bert" or positions != "absolute":
        raise InvalidInput(
            f"the built-in exporter does not know backbones of type {model.config.model_type!r}"
            f" with {positions} positions",
            fix="choose --exporter optimum, or a backbone like BERT",
            subject="backbone",
        )
    single = _Single(model).eval()
    example = tuple(
        torch.randn(rows, width) if width else torch.ones(rows)
        for rows, width in ((3, single.width), (3, 0), (2, single.lora), (2, single.prefix))
    )
    inputs = {"embeddings": "n", "weights": "n", "lora": "rank", "prefix": "keys"}
    write_onnx(single, example, exported, inputs=inputs, output="pooled")


def _export_by_optimum(model: Any, exported: Path) -> None:
    """Write the float graph by optimum's configuration for the model's architecture.

    The configuration names the inputs of `_Adapted` in place of token ids. Its patches of the
    model and of torch stay as they are.
    """
    runtime()  # before optimum imports onnxruntime, whose telemetry this turns off
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of every shape that it takes for a constant
        try:
            from optimum.exporters.onnx import export
            from optimum.exporters.onnx.config import TextEncoderOnnxConfig
            from optimum.exporters.tasks import TasksManager
        except ImportError as error:
            raise NotReady(
                "optimum is not installed",
                fix="pip install 'sottovoce-models[export]'",
                subject="exporter",
            ) from error
        kind = model.config.model_type
        try:
            known = TasksManager.get_exporter_config_constructor(
                "onnx", model, task="feature-extraction", library_name="transformers"
            )(model.config)
        except (KeyError, ValueError) as error:
            raise _refused(f"optimum does not export backbones of type {kind!r}") from error
        if not isinstance(known, TextEncoderOnnxConfig):
            raise _refused(f"to optimum a backbone of type {kind!r} is no text encoder")
        adapted = _Adapted(model).eval()
        example = {
            "embeddings": torch.randn(3, model.config.hidden_size),
            "weights": torch.ones(3),
            "lora": torch.randn(2, sum(adapted.sides)),
        }
        axes = {"embeddings": {0: "n"}, "weights": {0: "n"}, "lora": {0: "rank"}}
        replaced = {
            "inputs": property(lambda _: axes),
            "outputs": property(lambda _: {"pooled": {}}),
            "generate_dummy_inputs": lambda *_, **__: example,
        }
        device = type("DeviceOnnxConfig", (type(known),), replaced)
        export(adapted, device(adapted.config, task="feature-extraction"), exported, opset=OPSET)


def _refused(why: str) -> InvalidInput:
    return InvalidInput(
        f"this backbone cannot be an encoder for devices: {why}",
        fix="build without --encoder, or over another backbone",
        subject="backbone",
    )


class _Adapted(nn.Module):
    """One text through any text encoder, with low-rank updates of its layers as inputs."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.config = copy.copy(model.config)  # optimum changes it
        self.updated = [model.get_submodule(name) for name in targets(model, False)]
        self.sides = [
            side for layer in self.updated for side in (layer.in_features, layer.out_features)
        ]

    def forward(self, embeddings: Tensor, weights: Tensor, lora: Tensor) -> dict[str, Tensor]:
        halves = torch.split(lora, self.sides, 1)
        with ExitStack() as undo:
            for layer, a, b in zip(self.updated, halves[::2], halves[1::2], strict=True):
                undo.callback(layer.register_forward_hook(_adding(a, b)).remove)
            mask = torch.ones_like(weights).long()[None]
            states = self.model(inputs_embeds=embeddings[None], attention_mask=mask)
        return {"pooled": weights @ states.last_hidden_state[0]}


def _adding(a: Tensor, b: Tensor) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    """Return a hook that adds the update with A (rank, inputs) and B (rank, outputs)."""

    def add(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output + (inputs[0] @ a.T) @ b

    return add


class _Single(nn.Module):
    """One text through a BERT, with an adapter's additions as inputs."""

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


def _rounded(network: bytes) -> bytes:
    """Return the graph with bytes in place of every matrix that lies in the file."""
    graph = onnx.load_from_string(network)
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
    return bytes(graph.SerializeToString())


def _blocks(matrix: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return a matrix (outputs, inputs) as MatMulNBits takes it.

    Returns:
        Bytes (outputs, blocks, block), and the scales of the blocks.
    """
    outputs, inputs = matrix.shape
    blocks = -(-inputs // _BLOCK)
    padded = np.pad(matrix, ((0, 0), (0, blocks * _BLOCK - inputs)))
    apart = padded.reshape(outputs, blocks, _BLOCK)
    scales = np.maximum(np.abs(apart).max(axis=2, keepdims=True), 1e-12) / (_ZERO - 1)
    whole = (np.rint(apart / scales) + _ZERO).astype(np.uint8)
    return whole, scales.reshape(-1).astype(np.float32)


@torch.no_grad()
def _compare(network: bytes, backbone: LoadedBackbone, shape: Shape) -> tuple[float, float]:
    """Compare pooled states of the graph with the model's, over texts of random tokens.

    Returns:
        The mean cosine, and the largest absolute difference.
    """
    model, table = backbone.model, input_embeddings(backbone)
    none = {"lora": np.zeros((0, shape.lora), np.float32)}
    if shape.prefix:
        none["prefix"] = np.zeros((0, shape.prefix), np.float32)
    opened, random = session(network), np.random.default_rng(0)
    # A special token within a text may change positions. RoBERTa's padding does.
    usual = np.setdiff1d(np.arange(len(table)), backbone.tokenizer.all_special_ids)
    lengths = [*random.integers(4, min(64, shape.longest), _TRIED), shape.longest]
    cosines, differences = [], []
    for length in lengths:
        ids = random.choice(usual, length)
        states = model(input_ids=torch.from_numpy(ids)[None]).last_hidden_state
        wanted = states[0].mean(0).numpy()
        weights = np.full(length, 1 / length, np.float32)
        (found,) = opened.run(["pooled"], {"embeddings": table[ids], "weights": weights, **none})
        cosines.append(found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted))
        differences.append(np.abs(found - wanted).max())
    return float(np.mean(cosines)), float(max(differences))


def write_table(backbone: LoadedBackbone, folder: Path) -> None:
    """Write ``table.npy``, the token embeddings, into ``folder``."""
    np.save(folder / TABLE, _table(input_embeddings(backbone)))


def _table(embeddings: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return rows of whole numbers (tokens, width + 4), with each row's scale in its last bytes."""
    scales = np.maximum(np.abs(embeddings).max(axis=1, keepdims=True), 1e-12) / 127
    whole = np.rint(embeddings / scales).astype(np.int8)
    return np.concatenate([whole, scales.astype("<f4").view(np.int8)], axis=1)


def write_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write the tokenizer as devices read it.

    Padding and truncation go, because they would count as parts of a word. The vocabulary is a file
    of its own where the device can read it in place.

    Raises:
        InvalidInput: devices would refuse the tokenizer.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    saved, tokens = without_vocabulary(backend.to_str())
    (folder / "tokenizer.json").write_text(saved, encoding="utf-8")
    if tokens is not None:
        (folder / VOCABULARY).write_text("".join(f"{t}\n" for t in tokens), encoding="utf-8")
    try:
        open_tokenizer(folder / "tokenizer.json")
    except BundleMismatch as error:
        raise InvalidInput(
            f"devices would refuse a bundle of this backbone: {error.problem}",
            fix="use a backbone whose tokenizer has standard parts",
            subject="backbone",
        ) from error


OPSET: Final = 18


def write_onnx(
    module: nn.Module,
    example: tuple[Tensor, ...],
    target: Path,
    *,
    inputs: Mapping[str, str],
    output: str,
) -> None:
    """Write the graph of ``module`` to ``target``, with unchanged weights.

    Args:
        module: in evaluation mode; returns one tensor.
        example: inputs for tracing.
        target: a file in a folder that exists.
        inputs: their names, in the order of ``example``. Each has the name of its first dimension
            if the length varies, else "".
    """
    with warnings.catch_warnings():
        # The newer exporter needs another library and writes a graph twice as long.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            example,
            target,
            dynamo=False,
            opset_version=OPSET,
            input_names=[*inputs],
            output_names=[output],
            dynamic_axes={name: {0: length} for name, length in inputs.items() if length},
        )


def prepare(exported: Path, ready: Path) -> None:
    """Write the graph again, with inferred shapes and folded constants."""
    runtime()
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(exported, ready, skip_symbolic_shape=True)


def write_int8(ready: Path, small: Path) -> None:
    """Write the graph with one byte a weight of each product, and a scale an output channel."""
    runtime()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        ready,
        small,
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        weight_type=QuantType.QInt8,
        reduce_range=True,
    )
