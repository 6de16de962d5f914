"""Enrol devices by code; callers may be strangers."""

from __future__ import annotations

from typing import Final

import grpc

from sottovoce.cloud.api.admission import FailedAttemptLimiter
from sottovoce.cloud.api.certified import shown
from sottovoce.cloud.tenants.codes import Codes
from sottovoce.cloud.tenants.credentials import Scope
from sottovoce.v1 import enrollment_pb2 as wire
from sottovoce.v1 import enrollment_pb2_grpc

__all__ = ["EnrollmentService"]

_SCOPES: Final = {
    Scope.ALL: wire.TOKEN_SCOPE_ALL,
    Scope.TRAIN: wire.TOKEN_SCOPE_TRAIN,
    Scope.PREDICT: wire.TOKEN_SCOPE_PREDICT,
}


class EnrollmentService(enrollment_pb2_grpc.EnrollmentServiceServicer):
    """Redeems the provider's codes.

    Args:
        codes: the codes to redeem.
    """

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._guesses = FailedAttemptLimiter()

    def RedeemCode(  # noqa: N802 - the wire's name
        self, request: wire.RedeemCodeRequest, context: grpc.ServicerContext
    ) -> wire.RedeemCodeResponse:
        """Enrol the device.

        Raises:
            Unauthenticated, InvalidInput, PermissionDenied: see `Codes.redeem`.
            Overloaded: too many wrong codes from this address.
        """
        certificate = shown(context)
        with self._guesses.one(context.peer()):
            done = self._codes.redeem(
                request.code, request.token_sha256, certificate[0] if certificate else ""
            )
        answer = wire.RedeemCodeResponse(
            tenant=done.tenant,
            name=done.name,
            scope=_SCOPES[done.scope],
        )
        if done.ends is not None:
            answer.end_time.FromMicroseconds(round(done.ends * 1e6))
        return answer
