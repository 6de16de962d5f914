"""Write the backbone as a device runs it: an int8 ONNX graph with an int8 token table beside it.

An adapter trained in the cloud runs on a device only over the same backbone, and a device has no
torch. One graph serves every adapter: low-rank updates, prompts and prefixes are inputs of the
graph, with a variable number of rows. `sottovoce.core.bundle.encoder` reads the files.

Two exporters write graphs. The built-in exporter knows BERT, needs no torch, and takes every kind
of adapter. optimum knows the other text encoders of `transformers`. Its graphs take no prefixes,
because not all of these encoders accept keys and values from outside. The finder `full` is written
beside the encoder.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from sottovoce.core.bundle.backbone import BackboneFiles, around
from sottovoce.core.bundle.encoder import (
    DESCRIPTION,
    FORMAT,
    MAX_TOKENS,
    NETWORK,
    TABLE,
    Layer,
    Shape,
)
from sottovoce.core.bundle.full_finder import Pins
from sottovoce.core.bundle.manifest import FULL_FINDER, sha256
from sottovoce.core.bundle.tokenizer import VOCABULARY, open_tokenizer, without_vocabulary
from sottovoce.core.errors import BundleMismatch, DataLoss, InvalidInput
from sottovoce.core.platform.schema import Malformed, decode
from sottovoce.core.text.onnx_models import check, session
from sottovoce.models import graphs
from sottovoce.models.graphs import Exact, Pooled, refused

Exporter = Literal["built-in", "optimum"]
LEAST_COSINE: Final = 0.995
"""The least mean cosine of the rounded graph's states with the exact ones. Below it nothing is
written."""

_LEAST_EXACT: Final = 0.9999
"""The same for the graph before rounding, and torch. A graph below it computes something else."""

_TRIED: Final = 32
ADAPTER: Final = Path(__file__).parent / "context_finder" / "full_finder.safetensors"
"""The trained adapter of the finder `full`, with its case vectors and head."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well a graph agrees with the backbone on texts of random tokens, without an adapter.

    Attributes:
        cosine: the mean cosine of pooled states after rounding.
        difference: the largest absolute difference from torch before rounding; None if they were
            not compared.
    """

    cosine: float
    difference: float | None


def write(
    files: BackboneFiles, folder: Path, exporter: Exporter = "built-in", *, compare: bool = False
) -> Agreement:
    """Write ``encoder.onnx``, ``table.npy`` and ``encoder.json`` into ``folder``.

    Args:
        files: the backbone.
        folder: is made if it is missing.
        exporter: of the graph. What optimum wrote is always compared with torch.
        compare: also compare what the built-in exporter wrote with torch.

    Raises:
        InvalidInput: the exporter or devices do not know this kind of backbone, or the graph does
            not agree with torch.
        NotReady: optimum or torch is needed and not installed.
    """
    tokens = files.input_embeddings()
    if tokens.shape[1] != files.hidden_size:
        raise refused(
            f"its token embeddings have {tokens.shape[1]} numbers and its states"
            f" {files.hidden_size}, and devices need one width"
        )
    exact = export(files, exporter, compare=compare)
    network = graphs.rounded(exact.network)
    try:
        check(memoryview(network))
    except ValueError as error:
        raise refused(f"devices do not run the exported graph: {error}") from error
    before, after = special_tokens(files.tokenizer)
    shape = Shape(
        backbone_sha256=files.sha256,
        width=files.hidden_size,
        tokens=len(tokens),
        positions=exact.positions,
        longest=min(MAX_TOKENS, exact.positions),
        before=tuple(before),
        after=tuple(after),
        layers=exact.layers,
        prefix=exact.prefix,
    )
    texts = _texts(files.tokenizer, len(tokens), shape.longest)
    try:
        own, difference = _by_graph(exact.network, tokens, shape), None
        if exact.pooled:
            cosine, difference = _compared(own, exact.pooled, texts)
            if cosine < _LEAST_EXACT:
                raise refused(f"the exported graph has a mean cosine of {cosine:.4f} with torch")
        cosine, _ = _compared(_by_graph(network, tokens, shape), exact.pooled or own, texts)
    except DataLoss as error:
        raise refused(f"its graph does not run: {error.problem}") from error
    if cosine < LEAST_COSINE:
        raise refused(f"rounded to bytes it has a mean cosine of {cosine:.4f} with the original")
    folder.mkdir(exist_ok=True)
    (folder / NETWORK).write_bytes(network)
    np.save(folder / TABLE, _table(tokens))
    facts = json.dumps({"format": FORMAT, **asdict(shape)}, indent=1)
    (folder / DESCRIPTION).write_text(facts + "\n", encoding="utf-8")
    return Agreement(cosine, difference)


def export(
    files: BackboneFiles, exporter: Exporter = "built-in", *, compare: bool = False
) -> Exact:
    """Return the graph without rounding. Arguments and errors are the same as for `write`."""
    if exporter == "optimum":
        from sottovoce.models import torch_export  # needs torch

        return torch_export.by_optimum(files.folder)
    exact = _bert(files)
    if not compare:
        return exact
    from sottovoce.models import torch_export

    return replace(exact, pooled=torch_export.pooled(files.folder))


def _bert(files: BackboneFiles) -> Exact:
    config = files.config
    kind, positions, activation = (
        config.get(name, usual)
        for name, usual in (
            ("model_type", "unknown"),
            ("position_embedding_type", "absolute"),
            ("hidden_act", "gelu"),
        )
    )
    if (kind, positions, activation) != ("bert", "absolute", "gelu") or config.get("is_decoder"):
        raise InvalidInput(
            f"the built-in exporter does not know backbones of type {kind!r} with {positions}"
            f" positions and {activation!r}",
            fix="choose --exporter optimum, or a backbone like BERT",
            subject="backbone",
        )
    bert = _shape_of(files)
    try:
        network = graphs.encoder(_weights(files), bert)
    except KeyError as error:
        raise refused(f"it lacks {error}") from error
    except ValueError as error:
        raise refused("its tensors do not fit together") from error
    width = bert.hidden_size
    return Exact(
        network,
        tuple(
            Layer(f"{layer}.{name}", width, width)
            for layer in graphs.layers(bert)
            for name in graphs.UPDATED
        ),
        bert.max_position_embeddings,
        2 * width * bert.num_hidden_layers,
        None,
    )


def _shape_of(files: BackboneFiles) -> graphs.Bert:
    try:
        bert = decode(graphs.Bert, files.config, "config.json", more=True)
    except Malformed as error:
        raise refused(str(error)) from error
    if bert.hidden_size % bert.num_attention_heads:
        raise refused(
            f"its width of {bert.hidden_size} is no multiple of {bert.num_attention_heads} heads"
        )
    return bert


def _weights(files: BackboneFiles) -> graphs.Weights:
    """Return the tensors of a BERT by the names of today; files of other models add a prefix."""
    prefix = "bert." if any(name.startswith("bert.") for name in files.tensors) else ""
    former = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def weight(name: str) -> NDArray[np.float64]:
        known = prefix + name
        if known not in files.tensors:
            for now, then in former.items():
                known = known.replace(now, then)
        return files.tensor(known).astype(np.float64)

    return weight


def special_tokens(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the ids that ``tokenizer`` puts before and after every text."""
    return around(*(tokenizer.encode("a", add_special_tokens=more).ids for more in (False, True)))


def _texts(tokenizer: Tokenizer, tokens: int, longest: int) -> list[NDArray[np.int64]]:
    """Return ids of random texts. A special token within a text may change positions."""
    random = np.random.default_rng(0)
    added = tokenizer.get_added_tokens_decoder()
    special = [number for number, token in added.items() if token.special]
    usual = np.setdiff1d(np.arange(tokens), special)
    lengths = [*random.integers(4, min(64, longest), _TRIED), longest]
    return [random.choice(usual, length) for length in lengths]


def _by_graph(network: bytes, tokens: NDArray[np.float32], shape: Shape) -> Pooled:
    none = {"lora": np.zeros((0, shape.lora), np.float32)}
    if shape.prefix:
        none["prefix"] = np.zeros((0, shape.prefix), np.float32)
    opened = session(network)

    def pooled(ids: NDArray[np.int64]) -> NDArray[np.float32]:
        weights = np.full(len(ids), 1 / len(ids), np.float32)
        (found,) = opened.run(["pooled"], {"embeddings": tokens[ids], "weights": weights, **none})
        return np.asarray(found)

    return pooled


def _compared(one: Pooled, other: Pooled, texts: list[NDArray[np.int64]]) -> tuple[float, float]:
    """Return the mean cosine of pooled states, and the largest absolute difference."""
    cosines, differences = [], []
    for ids in texts:
        found, wanted = one(ids), other(ids)
        cosines.append(found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted))
        differences.append(np.abs(found - wanted).max())
    return float(np.mean(cosines)), float(max(differences))


def write_finder(files: BackboneFiles, folder: Path, vocabulary: Path) -> bool:
    """Write `FULL_FINDER` into ``folder`` if devices would take it over this backbone.

    Args:
        files: the backbone of the bundle.
        folder: already holds the encoder, whose token table the finder shares.
        vocabulary: the bundle's file of tokens.

    Returns:
        Whether it was written. Devices take it over the default backbone alone.
    """
    known, table = Pins.shipped(), folder / TABLE
    shared = (table, known.table), (vocabulary, known.vocabulary)
    if not all(file.is_file() and sha256(file) == pinned for file, pinned in shared):
        return False
    network = finder(files)
    if hashlib.sha256(network).hexdigest() != known.network:
        return False
    (folder / FULL_FINDER).write_bytes(network)
    return True


def finder(files: BackboneFiles, adapter: Path = ADAPTER, *, int8: bool = True) -> bytes:
    """Return the graph of the finder `full`, see `graphs.finder`."""
    return graphs.finder(_weights(files), _shape_of(files), load_file(adapter), int8=int8)


def pin(files: BackboneFiles, adapter: Path, to: Path) -> int:
    """Write the hashes of the files that the adapter gives, and return the graph's size in bytes.

    Args:
        files: the backbone that the adapter was trained on.
        adapter: see `FullNetwork.save`.
        to: the file to write, see `PINS`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        network = finder(files, adapter)
        (folder / FULL_FINDER).write_bytes(network)
        write_table(files, folder)
        write_tokenizer(files.tokenizer, folder)
        (before,), (after,) = special_tokens(files.tokenizer)
        pins = Pins.of(folder, folder / VOCABULARY, before, after)
    to.write_text(pins.to_json(), encoding="utf-8")
    return len(network)


def write_table(files: BackboneFiles, folder: Path) -> None:
    """Write ``table.npy``, the token embeddings, into ``folder``."""
    np.save(folder / TABLE, _table(files.input_embeddings()))


def _table(embeddings: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return rows of whole numbers (tokens, width + 4), with each row's scale in its last bytes."""
    scales = np.maximum(np.abs(embeddings).max(axis=1, keepdims=True), 1e-12) / 127
    whole = np.rint(embeddings / scales).astype(np.int8)
    return np.concatenate([whole, scales.astype("<f4").view(np.int8)], axis=1)


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the tokenizer as devices read it.

    The vocabulary goes into a separate file if the device can read it in place.

    Args:
        tokenizer: without padding and truncation, which would count as parts of a word.
        folder: to write ``tokenizer.json`` into.

    Raises:
        InvalidInput: devices would refuse the tokenizer.
    """
    saved, tokens = without_vocabulary(tokenizer.to_str())
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
