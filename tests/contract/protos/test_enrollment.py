"""enrollment.proto: a code admits one token, and names its tenant."""

from __future__ import annotations

import hashlib

import pytest

from sottovoce.core.errors import InvalidInput, Unauthenticated
from sottovoce.v1 import enrollment_pb2 as wire
from sottovoce.v1 import training_pb2 as training
from tests.support.caller import Caller, credentials
from tests.support.peers import Peer, refused

TOKEN = "a token of the device's own making"  # noqa: S105


def redeem(caller: Caller, code: str, token: str = TOKEN) -> wire.RedeemCodeResponse:
    digest = hashlib.sha256(token.encode()).digest()
    return caller.enrollment.RedeemCode(
        wire.RedeemCodeRequest(code=code, token_sha256=digest), timeout=60
    )


def test_a_code_lets_in_one_token_and_once(cloud: Peer, acme: Caller) -> None:
    tenant = dict(acme.metadata)["sottovoce-tenant"]
    code = cloud.code(tenant, "hall")
    done = redeem(acme, code)
    assert (done.tenant, done.name, done.scope) == (tenant, "hall", wire.TOKEN_SCOPE_ALL)
    assert not done.HasField("end_time")
    assert redeem(acme, code.lower().replace("-", " ")) == done  # an answer that was lost
    refused(lambda: redeem(acme, code, "another"), Unauthenticated, "code")
    device = credentials(tenant, TOKEN)
    acme.training.ListJobs(training.ListJobsRequest(), metadata=device, timeout=60)
    acme.training.ListJobs(training.ListJobsRequest(), metadata=acme.metadata, timeout=60)


@pytest.mark.parametrize("code", ["", "0000-0000-0000", "x" * 100_000, "'; --", "\ud7ff" * 12])
def test_what_is_no_code_lets_nobody_in(cloud: Peer, acme: Caller, code: str) -> None:
    refused(lambda: redeem(acme, code, f"of {code[:9]}"), Unauthenticated, "code")


def test_a_token_is_named_by_its_hash(cloud: Peer, acme: Caller) -> None:
    code = cloud.code(dict(acme.metadata)["sottovoce-tenant"], "shed")
    request = wire.RedeemCodeRequest(code=code, token_sha256=b"short")
    refused(lambda: acme.enrollment.RedeemCode(request), InvalidInput, "token_sha256")
    assert redeem(acme, code, "long enough").name == "shed"
