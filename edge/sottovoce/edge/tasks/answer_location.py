"""Choose where a text is answered: as requested, within the owner's limits.

The daemon and the commands may have different configurations. In both, "device" promises that no
text leaves.
"""

from __future__ import annotations

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["who_answers"]

_CONFIGURED = {
    "device": agent.WHERE_DEVICE,
    "cloud": agent.WHERE_CLOUD,
    "auto": agent.WHERE_AUTO,
}


def who_answers(asked: agent.Where, configured: str) -> agent.Where:
    """Return where to answer: the device, the cloud, or either.

    Args:
        asked: the request's choice; unspecified leaves it to the configuration.
        configured: "device", "cloud" or "auto". "device" is a limit; the others are defaults.

    Raises:
        InvalidInput: the request names a place that this version does not know.
        NotReady: the request asks for the cloud, and the owner does not allow it.
    """
    where = asked or _CONFIGURED[configured]
    if where not in _CONFIGURED.values():  # an app may be newer than this device
        raise InvalidInput(
            "`where` names nobody that could answer",
            fix="ask for the device, the cloud or auto",
            subject="where",
        )
    if configured != "device":
        return where
    if where == agent.WHERE_CLOUD:
        raise NotReady(
            "the owner of this device lets nobody else answer",
            fix='set where = "auto" under [predict] in the configuration to allow it',
            subject="predict.where",
        )
    return agent.WHERE_DEVICE
