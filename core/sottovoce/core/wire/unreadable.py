"""Unparsable messages: answered like any bad input, and never raised inside gRPC.

If a deserialiser raises, grpcio prints a traceback and keeps the call for good (19 kB each). It
then waits for the call for ever when the server stops. So our deserialisers never raise: they
return `UNREADABLE`, and the method that receives it reports the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod
from typing import Any, Final

import grpc

from sottovoce.core.errors import InvalidInput, Unavailable

__all__ = ["UNREADABLE", "ReadingChannel", "answered", "asked", "tolerant"]

UNREADABLE: Final = object()
"""Stands for a message that could not be parsed."""

_Deserializer = Callable[[bytes], Any]


def tolerant(deserialize: _Deserializer | None) -> _Deserializer | None:
    """Return a deserialiser that returns `UNREADABLE` where the given one would raise."""
    if deserialize is None:
        return None

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except Exception:  # of any kind: it must not reach gRPC, or quote the bytes
            return UNREADABLE

    return read


def asked(request: Any) -> Any:
    """Return a request as it arrived.

    Raises:
        InvalidInput: it could not be parsed.
    """
    if request is UNREADABLE:
        raise InvalidInput(
            "the request is not a message of this method",
            fix="send the message that the method's definition names",
            subject="request",
        )
    return request


def answered(response: Any, *, peer: str) -> Any:
    """Return a response as it arrived from ``peer`` ("the cloud at host:port").

    Raises:
        Unavailable: it could not be parsed. The peer may be another program, or about to be
            replaced; trying again may help.
    """
    if response is UNREADABLE:
        raise Unavailable(
            f"{peer} sent an answer that cannot be read",
            fix="check that the address is right and that both sides have the same version",
        )
    return response


class ReadingChannel:
    """A channel for stubs, whose responses may be `UNREADABLE`: see `answered`."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def _call(
        self,
        shape: str,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: _Deserializer | None = None,
        **options: Any,
    ) -> Any:
        make = getattr(self._channel, shape)
        return make(method, request_serializer, tolerant(response_deserializer), **options)

    unary_unary = partialmethod(_call, "unary_unary")
    unary_stream = partialmethod(_call, "unary_stream")
    stream_unary = partialmethod(_call, "stream_unary")
    stream_stream = partialmethod(_call, "stream_stream")
