"""The adapter that examples are added to: its names and training settings.

New examples must be privatised like the others, and must have known labels. Both are checked before
any privacy is spent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.setting import Setting
from sottovoce.edge.state.opaque_ids import OpaqueIds
from sottovoce.edge.state.outbox import Outbox, setting_of
from sottovoce.edge.tasks.naming import trained_by_cloud
from sottovoce.v1 import training_pb2 as training

__all__ = ["Base", "base_of"]


@dataclass(frozen=True, slots=True)
class Base:
    """An adapter to add to.

    Attributes:
        names: the pseudonyms of the adapter and its labels in the cloud.
        training: its training settings.
        setting: the privacy setting of its examples.
    """

    names: OpaqueIds
    training: training.TrainingSettings
    setting: Setting

    def check(self, seen: Iterable[str]) -> None:
        """Refuse labels that the adapter does not have (InvalidInput)."""
        unknown = sorted(set(seen) - set(self.names.labels.values()))
        if self.names.labels and unknown:
            raise InvalidInput(
                f"the adapter has no label {unknown[0]!r}",
                fix="leave those examples out, or train it anew with all labels (--replace)",
                subject="examples",
            )


def base_of(outbox: Outbox, name: str) -> Base:
    """Return the adapter ``name`` as a base for more examples.

    Raises:
        NotFound, NotReady: see `trained_by_cloud`.
    """
    record = trained_by_cloud(outbox, name)
    job = outbox.job_request(record.id)
    # Only this adapter's labels: the cloud does not know labels of the name's other records.
    return Base(outbox.pseudonyms(record), job.training, setting_of(job))
