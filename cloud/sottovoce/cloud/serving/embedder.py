"""Sentence embeddings of noisy queries, many at a time.

This is the cloud's half of Split-and-Denoise as a service. Noisy vectors become posterior means
under the public token frequencies, and the backbone reads those. Both steps handle the queries of
all tenants together. An answered query leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sottovoce.cloud.models.backbone import input_embeddings
from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.vectors import unit_rows

__all__ = ["PRIOR", "Embedder", "Query"]

PRIOR = "token_prior.npy"
"""File in a bundle: Floats1d (tokens,), log shares of running text."""

Floats1d = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Query:
    """Received noisy vectors, Floats2d (tokens, r) in the bundle's privacy space, and eta."""

    bundle_id: str
    noisy: Floats2d
    eta: float


class Embedder:
    """Encodes queries with the model of ``thread``.

    Args:
        thread: runs the model.
        bundles: by id; a query names one.
    """

    def __init__(self, thread: ModelThread, bundles: Mapping[str, Bundle]) -> None:
        self._thread = thread
        self._bundles = bundles
        self._encoder = Encoder(thread.backbone, thread.device)
        self._posteriors: dict[str, PosteriorMean] = {}

    def submit(self, query: Query, *, tenant: str = "") -> Future[Floats1d]:
        """Queue one query of ``tenant``; the answer is Floats1d (width,), of length 1.

        Raises:
            InvalidInput: the backbone takes fewer tokens.
            Overloaded: too many queries wait. The answer raises NotReady if the bundle has no token
                frequencies.
        """
        longest = self._encoder.max_tokens
        if len(query.noisy) > longest:
            raise InvalidInput(
                f"this backbone takes {longest} tokens",
                fix="send a text in parts",
                subject="tokens",
            )
        cost = len(query.noisy)
        return self._thread.submit(self._answer, query, tenant=tenant, cost=cost)

    def _answer(self, queries: Sequence[Query]) -> Iterator[tuple[int, Floats1d | Exception]]:
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
        for together in self._thread.passes(shapes):
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
