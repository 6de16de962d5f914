"""Names of adapters: valid names, free names, and the cloud's record for a name.

Customising, learning and joining each take a name, and must refuse names with the same messages.
"""

from __future__ import annotations

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.rpc.limits import NAME
from sottovoce.edge.state.outbox import Outbox, is_usable
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["check_free", "check_name", "trained_by_cloud"]

_UNTRAINED = (agent.CUSTOMIZATION_STATE_FAILED, agent.CUSTOMIZATION_STATE_CANCELLED)


def check_name(name: str) -> None:
    """Refuse an invalid adapter name (InvalidInput)."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            "the adapter's name is not usable",
            fix="take 1 to 64 lower-case letters, digits, '-' or '_', the first no '-' or '_'",
            subject="adapter",
        )


def check_free(outbox: Outbox, name: str, *, fix: str) -> None:
    """Refuse a name in use (NotReady); ``fix`` says what to do instead."""
    if any(one.adapter == name and one.state not in _UNTRAINED for one in outbox.all()):
        raise NotReady(f"there is an adapter {name!r} already", fix=fix, subject="adapter")


def trained_by_cloud(outbox: Outbox, name: str) -> agent.Customization:
    """Return the record of the cloud's latest training under a name.

    Raises:
        NotFound: no adapter of that name was customised here.
        NotReady: the cloud has not trained it.
    """
    _, trained = outbox.adapter(name)
    record = outbox.get(trained) if trained else None
    if record is None or not is_usable(record) or record.local:
        raise NotReady(
            f"the cloud has not trained the adapter {name!r}",
            fix="wait until it has, or have it trained anew with `sotto customize`",
            subject="adapter",
        )
    return record
