"""The fake cloud's part that lets devices in by a code."""

from __future__ import annotations

import functools
import hashlib
import secrets
from dataclasses import dataclass

import grpc

from sottovoce.core.errors import InvalidInput, Unauthenticated, Unavailable
from sottovoce.v1 import enrollment_pb2 as wire
from sottovoce.v1 import enrollment_pb2_grpc


@dataclass
class _Code:
    tenant: str
    name: str
    token_sha256: bytes = b""


class FakeCodes(enrollment_pb2_grpc.EnrollmentServiceServicer):
    """Redeems codes made by `code`."""

    tenants: dict[str, str]
    """Token of each."""
    lose_answers = 0
    """Lose so many answers, once the code was redeemed."""

    @functools.cached_property
    def codes(self) -> dict[str, _Code]:
        """All there ever were."""
        return {}

    @functools.cached_property
    def shown(self) -> list[bytes]:
        """That of each call of a tenant's, if it came with one (PEM)."""
        return []

    def serve_codes(self, server: grpc.Server) -> None:
        """Adds the service."""
        enrollment_pb2_grpc.add_EnrollmentServiceServicer_to_server(self, server)

    def enroll(self, tenant: str) -> str:
        """Adds a tenant and gives its token."""
        self.tenants[tenant] = secrets.token_urlsafe(32)
        return self.tenants[tenant]

    def code(self, tenant: str, name: str) -> str:
        """For one device."""
        made = secrets.token_hex(6).upper()
        self.codes[made] = _Code(tenant, name)
        return "-".join((made[:4], made[4:8], made[8:]))

    def redeemed(self, tenant: str, token: str) -> bool:
        """Whether a code let in who has this token."""
        digest = hashlib.sha256(token.encode()).digest()
        return any((c.tenant, c.token_sha256) == (tenant, digest) for c in self.codes.values())

    def RedeemCode(  # noqa: N802
        self, request: wire.RedeemCodeRequest, context: grpc.ServicerContext
    ) -> wire.RedeemCodeResponse:
        if len(request.token_sha256) != 32:
            raise InvalidInput("no hash", fix="send one", subject="token_sha256")
        code = self.codes.get(request.code.upper().replace("-", "").replace(" ", ""))
        if code is None or code.token_sha256 not in (b"", request.token_sha256):
            raise Unauthenticated("wrong code", fix="ask for another", subject="code")
        code.token_sha256 = request.token_sha256
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unavailable("the connection is lost")
        return wire.RedeemCodeResponse(
            tenant=code.tenant,
            name=code.name,
            scope=wire.TOKEN_SCOPE_ALL,
        )
