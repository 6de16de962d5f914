"""The adapter that examples are added to: what it is called, and how it was trained.

Why it is here: what is added must be privatised as the rest was, with no label that is new;
both are seen to before any privacy is spent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.privacy.setting import Setting
from sottovoce.edge.state.outbox import Outbox, is_usable
from sottovoce.edge.state.pseudonyms import Pseudonyms
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
        NotFound: none of that name was customised here. NotReady: it is not trained.
    """
    names, trained = outbox.adapter(name)
    setting = outbox.trained_with(trained)
    if setting is None or not is_usable(outbox.get(trained)) or outbox.get(trained).local:
        raise NotReady(
            f"the cloud has not trained the adapter {name!r}",
            fix="wait until it has, or train it without --add",
            subject="adapter",
        )
    return Base(names, outbox.job_request(trained).training, setting)
