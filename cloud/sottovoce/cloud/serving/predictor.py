"""Classify texts of many tenants, and embed noisy queries, with one model in memory.

One copy of the backbone serves every adapter. Waiting requests share forward passes, whatever their
methods: LoRA's updates, prompts, prefixes and heads are selected for each row. A fully fine-tuned
model has separate weights. Its rows use the same code with those weights in the backbone's place.

The embedder is the cloud's half of Split-and-Denoise as a service. Noisy vectors become posterior
means under the public token frequencies, and the backbone reads those. Both steps handle the
queries of all tenants together. An answered query leaves no trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models.backbone import input_embeddings
from sottovoce.cloud.models.batches import Encoded, collate, encode
from sottovoce.cloud.models.classifier import pool
from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.cloud.models.rows import Row, first_position, misfit, run
from sottovoce.cloud.serving.adapter_cache import BUDGET, AdapterCache, check_bundle, opened
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.vectors import unit_rows

Scores = list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class _Served:
    """A loaded adapter.

    ``row`` is its part in a pass. The head, Float (C, h) and (C,), stays on the CPU in float32.
    ``model`` is 0 for the backbone, and a number for every other set of weights.
    """

    labels: tuple[str, ...]
    bundle_id: str
    weight: Tensor
    bias: Tensor | None
    row: Row
    cue: tuple[int, ...] = ()
    model: int = 0

    @property
    def bytes(self) -> int:
        """Memory of its tensors, in bytes."""
        held = (self.weight, self.bias)
        return self.row.bytes + sum(t.numel() * t.element_size() for t in held if t is not None)

    def shape(self, row: Encoded) -> tuple[int, int, int]:
        """Return a row's shape for `passes`."""
        return self.model, self.row.front, len(row.ids)


@dataclass(frozen=True, slots=True)
class _Request:
    adapter: _Served
    text: str


class Predictor:
    """Predictions with the model of ``thread``; ``memory`` is in bytes, for adapters."""

    def __init__(self, thread: ModelThread, *, memory: int = BUDGET) -> None:
        self._thread = thread
        self._backbone = thread.backbone
        self._encoder = thread.encoder
        positions = thread.backbone.positions
        self._most = None if positions is None else positions - first_position(thread.encoder)
        self._numbers = itertools.count(1)
        self._adapters = AdapterCache(self._load, budget=memory, metrics=thread.metrics)

    def submit(
        self, files: AdapterFiles, text: str, *, tenant: str = "", bundle_id: str | None = None
    ) -> Future[Scores]:
        """Queue one text for the adapter of ``files``, reading the adapter if necessary.

        Args:
            files: from `locate`.
            tenant: the caller; tenants take turns.
            bundle_id: of the text's bundle, if it should be checked.

        Returns:
            All labels, most probable first.

        Raises:
            Overloaded: too many requests wait. DataLoss: files are damaged. BundleMismatch: the
                adapter belongs to another backbone or bundle. NotReady: it does not fit into
                memory.
        """
        adapter, release = self._adapters.acquire(files)
        try:
            if bundle_id is not None:
                check_bundle(bundle_id, adapter.bundle_id)
            cost = 2 + len(text) // 4  # about the number of tokens, which are counted later
            answer = self._thread.submit(
                self._answer, _Request(adapter, text), tenant=tenant, cost=cost
            )
        except BaseException:
            release()
            raise
        answer.add_done_callback(lambda _: release())
        return answer

    def _answer(self, requests: Sequence[_Request]) -> Iterator[tuple[int, Scores | Exception]]:
        for place, found in self._logits(requests):
            if isinstance(found, Exception):
                yield place, found
                continue
            labels = requests[place].adapter.labels
            scores = zip(labels, found.softmax(-1).tolist(), strict=True)
            yield place, sorted(scores, key=lambda score: -score[1])

    def _logits(self, requests: Sequence[_Request]) -> Iterator[tuple[int, Tensor | Exception]]:
        """Yield logits Float (C,) for every request, from few passes."""
        rows = self._encoded(requests)
        shapes = [r.adapter.shape(row) for r, row in zip(requests, rows, strict=True)]
        fit = []
        for place, (_, front, length) in enumerate(shapes):
            if self._most is None or front + length <= self._most:
                fit.append(place)
            else:  # on a GPU, such a pass would end all later passes of the process too
                yield place, _too_long(length, self._most - front)
        for chosen in self._thread.encoder_passes([shapes[place] for place in fit]):
            places = [fit[at] for at in chosen]
            served = [requests[place].adapter for place in places]
            these = [rows[place] for place in places]
            try:
                pooled = list(self._forward(served, these))
            except Exception:  # one row's fault must not fail the other rows
                pooled = [self._alone(*pair) for pair in zip(served, these, strict=True)]
            for place, adapter, row in zip(places, served, pooled, strict=True):
                ok = isinstance(row, Tensor)
                yield place, F.linear(row, adapter.weight, adapter.bias) if ok else row

    def _alone(self, served: _Served, row: Encoded) -> Tensor | Exception:
        try:
            return self._forward([served], [row])[0]
        except Exception as error:
            return error

    def _encoded(self, requests: Sequence[_Request]) -> list[Encoded]:
        alike: dict[tuple[int, ...], list[int]] = {}
        for place, request in enumerate(requests):
            alike.setdefault(request.adapter.cue, []).append(place)
        found: dict[int, Encoded] = {}
        for cue, places in alike.items():
            texts = [requests[place].text for place in places]
            rows = encode(self._backbone.tokenizer, texts, cue=cue)
            found |= zip(places, rows, strict=True)
        return [found[place] for place in range(len(requests))]

    @torch.inference_mode()
    def _forward(self, served: Sequence[_Served], rows: Sequence[Encoded]) -> Tensor:
        """Return the texts' mean states, Float (B, h) on the CPU; all of one model."""
        joined = [adapter.row for adapter in served]
        if self._thread.unpadded is not None and not served[0].model:
            found = self._thread.unpadded([torch.tensor(row.ids) for row in rows], joined)
            return torch.stack([_mean(*each) for each in zip(found, rows, strict=True)])
        batch = collate(rows, self._backbone.tokenizer.pad_token_id or 0).to(self._thread.device)
        states = run(self._encoder, batch.ids, batch.attention, joined)
        return pool(states.float(), batch.text).cpu()

    def _load(self, folder: Path) -> _Served:
        adapter = opened(folder, "classification", self._backbone.sha256)
        if adapter.words is not None:
            weight, cue = adapter.words.weight(self._backbone), adapter.words.cue
        else:
            assert adapter.weight is not None
            weight, cue = adapter.weight, ()
        row = adapter.method.row(self._encoder, adapter.tensors)
        unpadded = self._thread.unpadded is not None and row.weights is None
        served = _Served(
            labels=adapter.labels,
            bundle_id=str(adapter.origin.get("bundle_id", "")),
            weight=weight,
            bias=adapter.bias,
            row=row.to(self._thread.device, torch.float32 if unpadded else self._thread.dtype),
            cue=cue,
            model=0 if row.weights is None else next(self._numbers),
        )
        if weight.shape != (len(adapter.labels), self._backbone.hidden_size):
            raise misfit()
        return served


def _mean(states: Tensor, row: Encoded) -> Tensor:
    """Return the mean of a text's states, see `pool`: Float (n, h) -> Float (h,)."""
    text = row.text if any(row.text) else (True,) * len(row.text)
    return states[torch.tensor(text)].float().mean(0)


def _too_long(tokens: int, most: int) -> InvalidInput:
    return InvalidInput(
        f"the text has {tokens} tokens, and the adapter leaves room for {most}",
        fix="send a shorter text, or customise with fewer virtual tokens",
        subject="text",
    )


PRIOR = "token_prior.npy"
"""File in a bundle: Floats1d (tokens,), log shares of running text."""

Floats1d = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Query:
    """Received noisy vectors, Floats2d (tokens, r) in the bundle's privacy space, and eta."""

    bundle_id: str
    noisy: Floats2d
    eta: float


class Embedder:
    """Encodes queries with the model of ``thread``; each names one of the bundles by id."""

    def __init__(self, thread: ModelThread, bundles: Mapping[str, Bundle]) -> None:
        self._thread = thread
        self._bundles = bundles
        self._encoder = Encoder(thread.backbone, thread.device)
        self._posteriors: dict[str, PosteriorMean] = {}

    def submit(
        self, bundle_id: str, noisy: Floats2d, eta: float, *, tenant: str = ""
    ) -> Future[Floats1d]:
        """Queue one query of ``tenant``; the answer is Floats1d (width,), of length 1.

        Args:
            noisy: received vectors, (tokens, r), in the bundle's privacy space.
            eta: of their noise.

        Raises:
            InvalidInput: the backbone takes fewer tokens.
            Overloaded: too many queries wait. The answer raises NotReady if the bundle has no token
                frequencies.
        """
        longest = self._encoder.max_tokens
        if len(noisy) > longest:
            raise InvalidInput(
                f"this backbone takes {longest} tokens",
                fix="send a text in parts",
                subject="tokens",
            )
        query = _Query(bundle_id, noisy, eta)
        return self._thread.submit(self._answer, query, tenant=tenant, cost=len(noisy))

    def _answer(self, queries: Sequence[_Query]) -> Iterator[tuple[int, Floats1d | Exception]]:
        inputs: dict[int, torch.Tensor] = {}
        groups: dict[tuple[str, float], list[int]] = {}
        for place, query in enumerate(queries):
            groups.setdefault((query.bundle_id, query.eta), []).append(place)
        for (bundle_id, eta), places in groups.items():
            try:
                posterior = self._posterior(bundle_id)
                means = posterior(np.concatenate([queries[p].noisy for p in places]), eta)
            except Exception as error:
                yield from ((place, error) for place in places)
                continue
            rows = torch.split(means, [len(queries[p].noisy) for p in places])
            inputs |= zip(places, rows, strict=True)
        known = list(inputs)
        shapes = [(0, 0, len(inputs[place])) for place in known]
        for together in self._thread.encoder_passes(shapes):
            chunk = [known[i] for i in together]
            found = self._encoder.encode([inputs[place] for place in chunk]).numpy()
            yield from zip(chunk, found, strict=True)

    def _posterior(self, bundle_id: str) -> PosteriorMean:
        if bundle_id not in self._posteriors:
            bundle = self._bundles[bundle_id]
            if PRIOR not in bundle.manifest.files:
                raise NotReady(
                    "the bundle has no token frequencies",
                    fix="build it again with `sotto-cloud build-bundle`",
                    subject="bundle",
                )
            self._posteriors[bundle_id] = PosteriorMean(
                unit_rows(bundle.tokens),
                input_embeddings(self._thread.backbone),
                np.load(bundle.folder / PRIOR, allow_pickle=False),
                self._thread.device,
            )
        return self._posteriors[bundle_id]
