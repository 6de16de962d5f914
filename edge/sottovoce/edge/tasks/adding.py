"""The adapter that examples are added to: what it is called, and how it was trained.

Why it is here: what is added must be privatised as the rest was, with no label that is new;
both are seen to before any privacy is spent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.setting import Setting
from sottovoce.edge.state.opaque_ids import Pseudonyms
from sottovoce.edge.state.outbox import Outbox, setting_of
from sottovoce.edge.tasks.naming import trained_by_cloud
from sottovoce.v1 import training_pb2 as training

__all__ = ["Base", "base_of"]


@dataclass(frozen=True, slots=True)
class Base:
    """An adapter to add to.

    Attributes:
        names: what the cloud calls it and its labels.
        training: what it was trained with.
        setting: how its examples were privatised.
    """

    names: Pseudonyms
    training: training.TrainingSettings
    setting: Setting

    def check(self, seen: Iterable[str]) -> None:
        """Refuses labels that it does not have (InvalidInput)."""
        unknown = sorted(set(seen) - set(self.names.labels.values()))
        if self.names.labels and unknown:
            raise InvalidInput(
                f"the adapter has no label {unknown[0]!r}",
                fix="leave those examples out, or train it anew with all labels (--replace)",
                subject="examples",
            )


def base_of(outbox: Outbox, name: str) -> Base:
    """The adapter ``name``.

    Raises:
        NotFound, NotReady: see `trained_by_cloud`.
    """
    record = trained_by_cloud(outbox, name)
    job = outbox.job_request(record.id)
    # Its own labels, and not those of the name's other records: the cloud knows no more.
    return Base(outbox.pseudonyms(record), job.training, setting_of(job))
