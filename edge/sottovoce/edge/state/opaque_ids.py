"""What the cloud calls an owner's adapters and labels.

Why it is here: an adapter called "hiv-clinic" says what a device is for, and a label what a text is
about, however well the text is hidden. So names stay in the device's sealed state. The cloud gets
ids that are a keyed hash of them: the same name is the same id on this device, and tells nobody
else anything, not even that two adapters share a label.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sottovoce.core.errors import SottovoceError
from sottovoce.edge.state.sealing import Seal

__all__ = ["BY_ID", "Pseudonyms", "adapter_id", "label_ids"]

BY_ID = "id:"
"""In front of what the cloud calls an adapter, where the owner has no name for it."""

_ADAPTER_BYTES = 16
_LABEL_BYTES = 10  # of at most a thousand in one adapter
_ID = re.compile(r"\b[a-z2-7]+\b")


def adapter_id(seal: Seal, name: str) -> str:
    """26 small letters and digits for the adapter `name`."""
    return _opaque(seal.name(b"adapter", name.encode()), _ADAPTER_BYTES)


def label_ids(seal: Seal, adapter: str, labels: Iterable[str]) -> dict[str, str]:
    """16 small letters and digits for each label of the adapter with the id `adapter`."""
    return {
        label: _opaque(seal.name(b"label", adapter.encode(), label.encode()), _LABEL_BYTES)
        for label in labels
    }


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """An adapter and its labels, as the cloud knows them and as their owner does.

    Args:
        adapter: the owner's name for it.
        adapter_id: the cloud's.
        labels: the owner's, by the cloud's; empty where labels have no other names: an adapter of
            another device, or of a version that sent them as they were.
    """

    adapter: str
    adapter_id: str
    labels: Mapping[str, str]

    def label(self, sent: str) -> str:
        """The owner's name of a label the cloud answered with.

        Raises:
            SottovoceError: it is none of this adapter's.
        """
        if not self.labels:
            return sent
        if sent not in self.labels:
            raise SottovoceError(
                "the cloud answered with a label that this adapter does not have",
                fix="customise it again",
            )
        return self.labels[sent]

    def reveal(self, text: str) -> str:
        """What the cloud said, with the owner's names in place of ids."""
        names = {self.adapter_id: self.adapter, **self.labels}
        return _ID.sub(lambda found: names.get(found[0], found[0]), text)

    def revealed(self, error: SottovoceError) -> SottovoceError:
        """The error with the owner's names in it."""
        return type(error)(
            self.reveal(error.problem),
            fix=self.reveal(error.fix),
            subject=self.reveal(error.subject),
            metadata=error.metadata,
        )


def _opaque(digest: bytes, size: int) -> str:
    return base64.b32encode(digest[:size]).decode().rstrip("=").lower()
