"""Where certificates are required a token alone opens nothing, whichever process is asked."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sottovoce.cloud.api.front import Front
from sottovoce.cloud.tenants.codes import Codes
from sottovoce.core.errors import (
    Unauthenticated,
)
from sottovoce.v1 import bundles_pb2, enrollment_pb2, generation_pb2, inference_pb2
from sottovoce.v1 import training_pb2 as training
from tests.support import device_keys as keys
from tests.support.caller import Caller
from tests.support.cloud import cloud
from tests.support.devices_port import (
    devices_place,
    lists,
    refusal,
    refuses_every_call,
)


def test_where_certificates_are_required_a_token_alone_opens_nothing(tmp_path: Path) -> None:
    with (
        devices_place(tmp_path, require_certificates=True, devices_port=9999) as place,
        ExitStack() as on,
    ):
        channel = on.enter_context(keys.shown(place.plain, place.roots, None))
        code = Codes(place.cloud.server.database).new("acme", "hall")
        token, secret = place.token("device"), keys.key()
        plain = Caller(channel, token)
        error = refusal(plain)
        assert type(error) is Unauthenticated
        assert "cloud.devices_port" in error.fix
        asked = enrollment_pb2.RedeemCodeRequest(code=code, token_sha256=bytes(32))
        assert plain.enrollment.RedeemCode(asked, timeout=60).devices_port == 9999
        plain.bundles.GetManifest(bundles_pb2.GetManifestRequest(), timeout=60)
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
        made = place.issue(token, secret)
        with place.caller(token, secret, made) as caller:
            lists(caller)
            caller.bundles.GetManifest(bundles_pb2.GetManifestRequest(), timeout=60)
        assert type(refusal(plain)) is Unauthenticated


def test_what_one_process_was_told_to_require_all_on_the_store_require(tmp_path: Path) -> None:
    with devices_place(tmp_path, require_certificates=True) as place, ExitStack() as on:
        token, secret = place.token("robbed"), keys.key()
        made = place.issue(token, secret)
        told = replace(place.cloud.settings, require_certificates=None)
        bare = replace(told, devices_listen="")
        replica = on.enter_context(cloud(replace(bare, trainer=False, jobs=False)))
        front = Front(bare)
        front.start()
        on.callback(front.stop)
        forgetful = on.enter_context(cloud(told))
        for address, answered in (
            (replica.server.address, (training, inference_pb2, generation_pb2)),
            (front.address, (training,)),
            (forgetful.server.address, (training, inference_pb2, generation_pb2)),
        ):
            thief = Caller(on.enter_context(keys.shown(address, place.roots, None)), token)
            refuses_every_call(thief, "by its certificate alone", *answered)
        with cloud(replace(told, require_certificates=False)):
            lists(thief)
        with keys.shown(forgetful.server.devices_address, place.roots, secret, made) as channel:
            lists(Caller(channel, token))


def test_streams_that_show_none_end_when_one_is_required(tmp_path: Path) -> None:
    with devices_place(tmp_path) as place:
        token, secret = place.token("open"), keys.key()
        made = place.issue(token, secret)
        with (
            keys.shown(place.plain, place.roots, None) as channel,
            place.caller(token, secret, made) as device,
        ):
            plain = Caller(channel, token)
            request = training.WatchJobRequest(job_id=plain.create(place.cloud.bundle_id).id)
            watches = [
                caller.training.WatchJob(request, metadata=token, timeout=60)
                for caller in (plain, device)
            ]
            assert [bool(next(watch).job.id) for watch in watches] == [True, True]
            place.cloud.server.tenants.require_certificates(required=True)
            with pytest.raises(grpc.RpcError):
                next(watches[0])
            assert watches[0].code() is grpc.StatusCode.CANCELLED
            lists(device)
            assert watches[1].is_active()
            watches[1].cancel()


def test_what_a_header_says_of_a_certificate_is_not_believed(tmp_path: Path) -> None:
    """As balancers send it that have ended TLS."""
    with devices_place(tmp_path, require_certificates=True) as place:
        token, secret = place.token("device"), keys.key()
        der = place.issue(token, secret)
        pem = ssl.DER_cert_to_PEM_cert(der).replace("\n", "%0A")
        said = (
            ("x-forwarded-client-cert", f'Cert="{pem}"'),
            ("x-ssl-client-cert", pem),
            ("x-ssl-client-verify", "SUCCESS"),
            ("x509_pem_cert", pem),
        )
        with keys.shown(place.plain, place.roots, None) as channel:
            assert type(refusal(Caller(channel, (*token, *said)))) is Unauthenticated
