"""Who answers a text: what its request asks for, within what the owner allows.

Why it is here: the daemon and the commands beside it may be configured differently, and either
owner's "device" is a promise that no text leaves.
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
    """The device, the cloud, or whichever can.

    Args:
        asked: by the request; unspecified leaves it to the configuration.
        configured: "device", "cloud" or "auto". The first is a limit, the others are defaults.

    Raises:
        InvalidInput: nobody this version knows is asked for.
        NotReady: the cloud is, and the owner does not allow it.
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
