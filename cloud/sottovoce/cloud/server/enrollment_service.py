"""Devices that are let in by a code. Whoever calls is a stranger."""

from __future__ import annotations

from typing import Final

import grpc

from sottovoce.cloud.server.guesses import Guesses
from sottovoce.cloud.state.codes import Codes
from sottovoce.cloud.state.credentials import Scope
from sottovoce.v1 import enrollment_pb2 as wire
from sottovoce.v1 import enrollment_pb2_grpc

__all__ = ["EnrollmentService"]

_SCOPES: Final = {
    Scope.ALL: wire.TOKEN_SCOPE_ALL,
    Scope.TRAIN: wire.TOKEN_SCOPE_TRAIN,
    Scope.PREDICT: wire.TOKEN_SCOPE_PREDICT,
}


class EnrollmentService(enrollment_pb2_grpc.EnrollmentServiceServicer):
    """Redeems the codes that the provider makes."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._guesses = Guesses()

    def RedeemCode(  # noqa: N802 - the wire's name
        self, request: wire.RedeemCodeRequest, context: grpc.ServicerContext
    ) -> wire.RedeemCodeResponse:
        """Lets the device in.

        Raises:
            Unauthenticated, InvalidInput, PermissionDenied: see `Codes.redeem`.
            Overloaded: too many wrong codes from this address.
        """
        with self._guesses.one(context.peer()):
            done = self._codes.redeem(request.code, request.token_sha256)
        answer = wire.RedeemCodeResponse(
            tenant=done.tenant, name=done.name, scope=_SCOPES[done.scope]
        )
        if done.ends is not None:
            answer.end_time.FromMicroseconds(round(done.ends * 1e6))
        return answer
