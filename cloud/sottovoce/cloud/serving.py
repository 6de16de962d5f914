"""Answers for many tenants out of one model in memory.

One thread owns the model. It takes what requests have arrived, up to a batch,
and answers them in a single forward pass even when they are for different
adapters: PEFT chooses the LoRA matrices row by row, the heads are applied row
by row here. Adapters come from disk on demand and the least recently used leave.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import set_peft_model_state_dict
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud import adapters
from sottovoce.cloud.backbone import LoadedBackbone
from sottovoce.cloud.batching import BATCH, Batcher
from sottovoce.cloud.data import collate, encode
from sottovoce.cloud.model import adapt, encoder_of, lora_config, pool, targets
from sottovoce.edge.errors import BundleMismatch, SottovoceError

__all__ = ["Predictor", "Scores"]

ADAPTERS = 16

Scores = list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class _Request:
    folder: Path
    text: str


class Predictor:
    """Predictions over one backbone; ``close`` ends its thread.

    Args:
        backbone: a freshly loaded model; LoRA is built into it.
        batch: texts answered at once, at most.
        capacity: adapters kept in memory.

    Attributes:
        batcher: whose thread owns the model; other work on it is submitted there.
        device: where the model is.
    """

    def __init__(
        self, backbone: LoadedBackbone, *, batch: int = BATCH, capacity: int = ADAPTERS
    ) -> None:
        self._backbone = backbone
        self._encoder = encoder_of(backbone.model)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # Named before LoRA goes in and adds linear layers of its own.
        self._targets = {wide: targets(self._encoder, wide) for wide in (False, True)}
        self._model: Any = None
        self._capacity = capacity
        self._loaded: OrderedDict[Path, adapters.Adapter] = OrderedDict()
        self.batcher = Batcher(batch=batch)

    def submit(self, folder: Path, text: str) -> Future[Scores]:
        """Queues one text for the adapter in ``folder``.

        The answer holds all labels, most probable first. It raises DataLoss for
        damaged files and BundleMismatch for an adapter of another backbone.

        Raises:
            Overloaded: too many texts wait already.
        """
        return self.batcher.submit(self._answer, _Request(folder, text))

    def close(self) -> None:
        """Answers what is queued, then ends."""
        self.batcher.close()

    @contextmanager
    def without_adapters(self) -> Iterator[None]:
        """The backbone as it was loaded, for work on the batcher's thread."""
        if self._model is None:
            yield
            return
        self._model.base_model.disable_adapter_layers()
        try:
            yield
        finally:
            self._model.base_model.enable_adapter_layers()

    def _answer(self, requests: Sequence[_Request]) -> list[Scores | Exception]:
        answers: list[Scores | Exception] = []
        ready: list[_Request] = []
        wanted = {request.folder for request in requests}
        for request in requests:
            try:
                self._load(request.folder, wanted)
                ready.append(request)
                answers.append([])
            except Exception as error:
                answers.append(error)
        scores = iter(self._forward(ready) if ready else ())
        return [answer if isinstance(answer, Exception) else next(scores) for answer in answers]

    @torch.inference_mode()
    def _forward(self, requests: Sequence[_Request]) -> list[Scores]:
        tokenizer = self._backbone.tokenizer
        rows = encode(tokenizer, [request.text for request in requests])
        batch = collate(rows, tokenizer.pad_token_id or 0).to(self.device)
        states = self._model(
            input_ids=batch.ids,
            attention_mask=batch.attention,
            adapter_names=[_name(request.folder) for request in requests],
        ).last_hidden_state  # (B, n, h)
        pooled = pool(states, batch.text).float().cpu()  # (B, h)
        answers = []
        for request, row in zip(requests, pooled, strict=True):
            adapter = self._loaded[request.folder]
            shares = F.linear(row, adapter.weight, adapter.bias).softmax(-1).tolist()
            scores = zip(adapter.labels, shares, strict=True)
            answers.append(sorted(scores, key=lambda score: -score[1]))
        return answers

    def _load(self, folder: Path, wanted: set[Path]) -> None:
        if folder in self._loaded:
            self._loaded.move_to_end(folder)
            return
        adapter = adapters.load(folder)
        if adapter.backbone_sha256 != self._backbone.sha256:
            raise BundleMismatch(
                "the adapter was trained on another backbone than this server runs",
                fix="customise again, or start the server with the adapter's --backbone",
                subject="adapter",
            )
        name = _name(folder)
        config = lora_config(adapter.lora, self._targets[adapter.lora.feed_forward])
        if self._model is None:
            self._model = adapt(self._encoder, config, name)
        else:
            self._model.add_adapter(name, config)
        found = set_peft_model_state_dict(self._model, adapter.matrices, adapter_name=name)
        if found.unexpected_keys:
            raise SottovoceError("the adapter does not fit the backbone", fix="customise again")
        self._model.set_adapter(name)  # so that none that leaves is the active one
        self._model.to(self.device).eval()
        self._loaded[folder] = adapter
        for old in [f for f in self._loaded if f not in wanted]:
            if len(self._loaded) <= self._capacity:
                break
            del self._loaded[old]
            self._model.delete_adapter(_name(old))


def _name(folder: Path) -> str:
    """The adapter's name inside PEFT: of its job, and free of dots."""
    return folder.parent.name
