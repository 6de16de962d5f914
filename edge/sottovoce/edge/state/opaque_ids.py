"""The cloud's ids for an owner's adapters and labels.

An adapter called "hiv-clinic" reveals the purpose of a device. A label reveals the topic of a text,
however well the text is hidden. So names stay in the device's sealed state, and the cloud gets ids
that are keyed hashes. One name always has the same id on one device. The ids tell others nothing
else, not even that two adapters share a label.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sottovoce.core.errors import NotFound, NotReady, SottovoceError
from sottovoce.edge.state.device_key import Seal

__all__ = ["BY_ID", "OpaqueIds", "adapter_id", "label_ids"]

BY_ID = "id:"
"""Prefix of an adapter's id where the owner has no name for the adapter."""

_ADAPTER_BYTES = 16
_LABEL_BYTES = 10  # enough for the at most 1,000 labels of one adapter
_ID = re.compile(r"\b[a-z2-7]+\b")


def adapter_id(seal: Seal, name: str) -> str:
    """Return 26 lowercase letters and digits for the adapter `name`."""
    return _opaque(seal.name(b"adapter", name.encode()), _ADAPTER_BYTES)


def label_ids(seal: Seal, adapter: str, labels: Iterable[str]) -> dict[str, str]:
    """Return 16 lowercase letters and digits for each label of an adapter."""
    return {
        label: _opaque(seal.name(b"label", adapter.encode(), label.encode()), _LABEL_BYTES)
        for label in labels
    }


@dataclass(frozen=True, slots=True)
class OpaqueIds:
    """The names of an adapter and its labels, in the cloud and for the owner.

    Args:
        adapter: the owner's name.
        adapter_id: the cloud's id.
        labels: the owner's labels by the cloud's ids. Empty where labels have no other names: the
            adapter is another device's, or a version trained it that sent labels unchanged.
        unfinished: whether no training of the adapter has ended yet, as far as is known here.
    """

    adapter: str
    adapter_id: str
    labels: Mapping[str, str]
    unfinished: bool = False

    def label(self, sent: str) -> str:
        """Return the owner's name of a label in the cloud's answer.

        Raises:
            SottovoceError: this adapter has no such label.
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
        """Return the cloud's text with the owner's names in place of ids."""
        names = {self.adapter_id: self.adapter, **self.labels}
        return _ID.sub(lambda found: names.get(found[0], found[0]), text)

    def revealed(self, error: SottovoceError) -> SottovoceError:
        """Return the error with the owner's names in place of ids.

        Where the cloud knows no adapter because its training goes on, the error says so.
        """
        if self.unfinished and isinstance(error, NotFound):
            return NotReady(
                f"adapter {self.adapter!r} is not trained yet",
                fix="wait for its training: `sotto logs NAME` follows it",
                subject=self.adapter,
            )
        return type(error)(
            self.reveal(error.problem),
            fix=self.reveal(error.fix),
            subject=self.reveal(error.subject),
            metadata=error.metadata,
        )


def _opaque(digest: bytes, size: int) -> str:
    return base64.b32encode(digest[:size]).decode().rstrip("=").lower()
