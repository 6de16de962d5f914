"""Envoy's configuration, read as Envoy would: it is not run here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from sottovoce.cloud.cli import main

OPTIONS = ["--replica", "replica.example.org:8471*16", "--front", "front:8472"]
OPTIONS += ["--tls-cert", "/tls/chain.pem", "--tls-key", "/tls/key.pem", "--backend-ca", "/tls/ca"]
OPTIONS += ["--metrics", "127.0.0.1:9901"]

KNOWN = {
    "transport_sockets.tls.v3.DownstreamTlsContext": "common_tls_context",
    "transport_sockets.tls.v3.UpstreamTlsContext": "common_tls_context auto_host_sni "
    "auto_sni_san_validation",
    "filters.network.connection_limit.v3.ConnectionLimit": "stat_prefix max_connections",
    "filters.network.http_connection_manager.v3.HttpConnectionManager": "stat_prefix codec_type "
    "use_remote_address stream_idle_timeout request_headers_timeout http2_protocol_options "
    "route_config http_filters",
    "filters.http.local_ratelimit.v3.LocalRateLimit": "stat_prefix token_bucket filter_enabled "
    "filter_enforced local_rate_limit_per_downstream_connection",
    "filters.http.router.v3.Router": "",
    "retry.host.previous_hosts.v3.PreviousHostsPredicate": "",
    "upstreams.http.v3.HttpProtocolOptions": "explicit_http_config",
}
"""Messages of Envoy's API that may be in it, and of their fields those that we use."""

CLUSTER = "name type connect_timeout lb_policy common_lb_config typed_extension_protocol_options "
CLUSTER += "health_checks load_assignment transport_socket"


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    """What `balancer-config envoy` prints."""
    done = CliRunner().invoke(main, ["balancer-config", "envoy", *OPTIONS])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


def messages(found: Any) -> Iterator[dict[str, Any]]:
    """All that name their type, wherever they are."""
    if isinstance(found, dict):
        if "@type" in found:
            yield found
        for inner in found.values():
            yield from messages(inner)
    elif isinstance(found, list):
        for inner in found:
            yield from messages(inner)


def routes(printed: dict[str, Any]) -> list[dict[str, Any]]:
    """In the order in which they are tried."""
    filters = printed["static_resources"]["listeners"][0]["filter_chains"][0]["filters"]
    (host,) = filters[-1]["typed_config"]["route_config"]["virtual_hosts"]
    return list(host["routes"])


def test_only_fields_that_envoy_has_are_written(printed: dict[str, Any]) -> None:
    assert printed.keys() == {"static_resources", "admin"}
    met = set()
    for message in messages(printed):
        name = message["@type"].removeprefix("type.googleapis.com/envoy.extensions.")
        assert message.keys() - {"@type"} <= set(KNOWN[name].split()), name
        met.add(name)
    assert met == KNOWN.keys()
    for cluster in printed["static_resources"]["clusters"]:
        assert cluster.keys() <= set(CLUSTER.split())


def test_calls_go_where_they_are_answered_and_the_right_ones_twice(
    printed: dict[str, Any],
) -> None:
    again, to = {}, {}
    for route in routes(printed):
        ((_, path),) = route["match"].items()
        again[path] = "retry_policy" in route["route"]
        to[path] = route["route"]["cluster"]
    inference, training = "/sottovoce.v1.InferenceService/", "/sottovoce.v1.TrainingService/"
    assert [path for path, yes in again.items() if yes] == [
        f"{inference}Predict",
        f"{inference}Encode",
    ]
    assert [*to][-2:] == [training, "/"], "what is said of one path goes before"
    assert to.pop(training) == "fronts"
    assert set(to.values()) == {"replicas"}
    assert {f"{training}CreateJob", f"{training}GetAdapter"} <= to.keys()


def test_replicas_share_tenants_as_haproxys_do(printed: dict[str, Any]) -> None:
    replicas, fronts = printed["static_resources"]["clusters"]
    assert replicas["lb_policy"] == "RING_HASH"
    assert replicas["common_lb_config"]["consistent_hashing_lb_config"] == {
        "hash_balance_factor": 150
    }
    for route in routes(printed):
        if route["route"]["cluster"] == "replicas":
            assert route["route"]["hash_policy"] == [
                {"header": {"header_name": "sottovoce-tenant"}}
            ]
    for cluster in (replicas, fronts):
        (check,) = cluster["health_checks"]
        assert "grpc_health_check" in check
    (endpoint,) = fronts["load_assignment"]["endpoints"][0]["lb_endpoints"]
    address = endpoint["endpoint"]["address"]["socket_address"]
    assert address == {"address": "front", "port_value": 8472}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--front", "h:1"], "--replica"),
        (["--replica", "h:1"], "--front"),
        (["--replica", "h:1*0", "--front", "h:1"], "NAME:PORT*16"),
        (["--replica", "h 1", "--front", "h:1"], "NAME:PORT*16"),
        *(([f"--replica=h{c}h:1", "--front=h:1"], "NAME:PORT*16") for c in "(){},;|\"'#\\$%"),
        (["--replica=h:1", "--front=[::1]:1", "--backend-ca=/ca"], "--front NAME:PORT"),
        (["--replica=10.0.0.1:1", "--front=h:1", "--backend-ca=/ca"], "--replica NAME:PORT"),
        (["--replica", "h:1", "--front", "h:1"], "--tls-cert"),
        (["--replica", "h:1", "--front", "h:1", "--tls-cert", "a b"], "without spaces"),
    ],
)
def test_what_could_not_work_or_would_be_unsafe_is_refused(options: list[str], said: str) -> None:
    for balancer in ("envoy", "haproxy"):
        done = CliRunner().invoke(main, ["balancer-config", balancer, *options])
        assert done.exit_code
        assert said in done.stderr


def test_haproxy_takes_one_file_for_certificate_and_key() -> None:
    done = CliRunner().invoke(main, ["balancer-config", "haproxy", *OPTIONS])
    assert done.exit_code
    assert "both.pem" in done.stderr


@pytest.mark.parametrize("option", ["--peer-streams", "--peer-connections"])
def test_what_it_would_not_heed_is_refused(option: str) -> None:
    done = CliRunner().invoke(main, ["balancer-config", "envoy", *OPTIONS, option, "9"])
    assert done.exit_code
    assert f"{option} would do nothing" in done.output
