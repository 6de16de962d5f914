"""What a job goes on from, where it does: the adapter of its name, as it is now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch

from sottovoce.cloud.job import Job
from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.adapters import Adapter
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.state.adapters import AdapterFiles, with_files
from sottovoce.cloud.state.database import Database
from sottovoce.core.errors import BundleMismatch

__all__ = ["Base"]


@dataclass(frozen=True, slots=True)
class Base:
    """An adapter to go on from, and the digest of its files."""

    adapter: Adapter
    sha256: str

    @classmethod
    def of(cls, database: Database, job: Job) -> Self | None:
        """The one of a job; None where it begins anew.

        Raises:
            NotFound: it is gone. DataLoss: it is damaged.
        """
        if not job.training.continues:
            return None
        return with_files(database, job.tenant, job.adapter, cls._read)

    @classmethod
    def _read(cls, files: AdapterFiles) -> Self:
        with files.opened() as folder:
            return cls(adapters.load(folder), files.sha256)

    @torch.no_grad()
    def into(self, model: TextClassifier, backbone: LoadedBackbone) -> None:
        """Has ``model``, of the same method and labels, begin as this.

        Raises:
            BundleMismatch: it was trained over another backbone, or is of another kind.
        """
        mine = {**model.adapted.tensors(), **model.head_tensors()}
        heads = {"weight": self.adapter.weight, "bias": self.adapter.bias}
        theirs = {**self.adapter.tensors, **{n: t for n, t in heads.items() if t is not None}}
        alike = mine.keys() == theirs.keys() and all(
            theirs[name].shape == tensor.shape for name, tensor in mine.items()
        )
        if self.adapter.backbone_sha256 != backbone.sha256 or not alike:
            raise BundleMismatch(
                "the adapter was trained over another backbone, or otherwise",
                fix="train it anew",
                subject="adapter",
            )
        for name, tensor in mine.items():
            tensor.copy_(theirs[name])
