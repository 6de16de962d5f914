"""Enrol devices by code, and issue their certificates; callers may be strangers."""

from __future__ import annotations

from typing import Final

import grpc

from sottovoce.cloud.api.admission import FailedAttemptLimiter
from sottovoce.cloud.tenants.authority import Authority, asked, device
from sottovoce.cloud.tenants.codes import Codes
from sottovoce.cloud.tenants.credentials import Scope
from sottovoce.cloud.tenants.tenants import Tenants
from sottovoce.core.errors import NotReady
from sottovoce.v1 import enrollment_pb2 as wire
from sottovoce.v1 import enrollment_pb2_grpc

__all__ = ["EnrollmentService"]

_SCOPES: Final = {
    Scope.ALL: wire.TOKEN_SCOPE_ALL,
    Scope.TRAIN: wire.TOKEN_SCOPE_TRAIN,
    Scope.PREDICT: wire.TOKEN_SCOPE_PREDICT,
}


class EnrollmentService(enrollment_pb2_grpc.EnrollmentServiceServicer):
    """Redeems the provider's codes, and signs devices' keys.

    Args:
        codes: the codes to redeem.
        tenants: authenticates tokens.
        authority: signs; None: no certificates are issued.
        days: a certificate's lifetime.
        devices_port: the port for calls with a certificate.
    """

    def __init__(
        self,
        codes: Codes,
        tenants: Tenants,
        authority: Authority | None = None,
        *,
        days: int = 0,
        devices_port: int = 0,
    ) -> None:
        self._codes = codes
        self._tenants = tenants
        self._authority = authority
        self._days = days
        self._devices_port = devices_port
        self._guesses = FailedAttemptLimiter()

    def RedeemCode(  # noqa: N802 - the wire's name
        self, request: wire.RedeemCodeRequest, context: grpc.ServicerContext
    ) -> wire.RedeemCodeResponse:
        """Enrol the device.

        Raises:
            Unauthenticated, InvalidInput, PermissionDenied: see `Codes.redeem`.
            Overloaded: too many wrong codes from this address.
        """
        with self._guesses.one(context.peer()):
            done = self._codes.redeem(request.code, request.token_sha256)
        answer = wire.RedeemCodeResponse(
            tenant=done.tenant,
            name=done.name,
            scope=_SCOPES[done.scope],
            devices_port=self._devices_port,
        )
        if done.ends is not None:
            answer.end_time.FromMicroseconds(round(done.ends * 1e6))
        return answer

    def IssueCertificate(  # noqa: N802
        self, request: wire.IssueCertificateRequest, context: grpc.ServicerContext
    ) -> wire.IssueCertificateResponse:
        """Sign the key of a device that holds a token.

        Raises:
            Unauthenticated, PermissionDenied: see `Tenants.bind`.
            InvalidInput: see `asked`. NotReady: the cloud has no authority.
        """
        metadata = context.invocation_metadata()
        self._tenants.authenticate(metadata)  # before a stranger's request is parsed
        if self._authority is None:
            raise NotReady(
                "this cloud gives devices no certificates",
                fix="set cloud.devices_port to 0 on the device, or ask the provider",
                subject="cloud.devices_port",
            )
        key = asked(request.csr)
        self._tenants.bind(metadata, device(key))
        return wire.IssueCertificateResponse(certificate=self._authority.sign(key, self._days))
