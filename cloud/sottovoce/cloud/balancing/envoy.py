"""A configuration of Envoy, as JSON, which Envoy reads as it does YAML.

For 1.26 or newer without certificates of replicas and fronts; what checks those by the names of
hosts (`auto_host_sni`) came later, in about 1.34.

It has not been run here: HAProxy's has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sottovoce.cloud.balancing.layout import (
    BUSIEST,
    REPEATABLE,
    TRAINING,
    WITH_MODELS,
    Backend,
    Layout,
)
from sottovoce.core.wire.tenancy import TENANT_KEY

__all__ = ["configuration"]

_TYPES: Final = "type.googleapis.com/envoy.extensions"


def configuration(layout: Layout) -> str:
    """The file."""
    return json.dumps(_configuration(layout), indent=2) + "\n"


def _configuration(layout: Layout) -> dict[str, Any]:
    found: dict[str, Any] = {
        "static_resources": {
            "listeners": [_listener(layout)],
            "clusters": [
                _cluster(layout, "replicas", layout.replicas, "RING_HASH"),
                _cluster(layout, "fronts", layout.fronts, "LEAST_REQUEST"),
            ],
        }
    }
    if layout.metrics is not None:  # the whole admin interface: for nobody but operators
        found["admin"] = {"address": _address(layout.metrics)}
    return found


def _address(place: Backend) -> dict[str, Any]:
    return {"socket_address": {"address": place.host, "port_value": place.port}}


def _listener(layout: Layout) -> dict[str, Any]:
    chain: dict[str, Any] = {"filters": [_connections(layout), _manager(layout)]}
    if layout.tls_cert is not None:
        chain["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": f"{_TYPES}.transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": {
                    "alpn_protocols": ["h2"],
                    "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                    "tls_certificates": [
                        {
                            "certificate_chain": {"filename": str(layout.tls_cert)},
                            "private_key": {"filename": str(layout.tls_key or layout.tls_cert)},
                        }
                    ],
                },
            },
        }
    return {
        "name": "devices",
        "address": _address(layout.listen),
        "per_connection_buffer_limit_bytes": 1 << 20,
        "filter_chains": [chain],
    }


def _connections(layout: Layout) -> dict[str, Any]:
    """Envoy counts connections of all peers together; of each, a rate limit service could."""
    return {
        "name": "envoy.filters.network.connection_limit",
        "typed_config": {
            "@type": f"{_TYPES}.filters.network.connection_limit.v3.ConnectionLimit",
            "stat_prefix": "devices",
            "max_connections": 20_000,
        },
    }


def _manager(layout: Layout) -> dict[str, Any]:
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "devices",
            "codec_type": "HTTP2",
            "use_remote_address": True,
            "stream_idle_timeout": "21600s",
            "request_headers_timeout": "10s",
            "http2_protocol_options": {"max_concurrent_streams": 256},
            # No access log: headers hold tokens and tenants.
            "route_config": {
                "name": "devices",
                "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": _routes()}],
            },
            "http_filters": [
                _calls(layout),
                {
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": f"{_TYPES}.filters.http.router.v3.Router"},
                },
            ],
        },
    }


def _calls(layout: Layout) -> dict[str, Any]:
    """Of each connection, before anybody knows whose it is."""
    always = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    return {
        "name": "envoy.filters.http.local_ratelimit",
        "typed_config": {
            "@type": f"{_TYPES}.filters.http.local_ratelimit.v3.LocalRateLimit",
            "stat_prefix": "peer",
            "local_rate_limit_per_downstream_connection": True,
            "token_bucket": {
                "max_tokens": 10 * layout.peer_calls,
                "tokens_per_fill": layout.peer_calls,
                "fill_interval": "1s",
            },
            "filter_enabled": always,
            "filter_enforced": always,
        },
    }


def _routes() -> list[dict[str, Any]]:
    replicas = {
        "cluster": "replicas",
        "timeout": "0s",
        "hash_policy": [{"header": {"header_name": TENANT_KEY}}],
    }
    again = {
        "retry_on": "connect-failure,refused-stream,reset-before-request,unavailable",
        "num_retries": 2,
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {
                    "@type": f"{_TYPES}.retry.host.previous_hosts.v3.PreviousHostsPredicate"
                },
            }
        ],
        "host_selection_retry_max_attempts": 3,
    }
    return [
        *(
            {"match": {"path": path}, "route": {**replicas, "retry_policy": again}}
            for path in REPEATABLE
        ),
        *({"match": {"path": path}, "route": replicas} for path in WITH_MODELS),
        {"match": {"prefix": TRAINING}, "route": {"cluster": "fronts", "timeout": "0s"}},
        {"match": {"prefix": "/"}, "route": replicas},
    ]


def _cluster(layout: Layout, name: str, backends: Sequence[Backend], policy: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "type": "STRICT_DNS",
        "connect_timeout": "1s",
        "lb_policy": policy,
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        },
        "health_checks": [
            {
                "timeout": "1s",
                "interval": "0.5s",
                "unhealthy_threshold": 2,
                "healthy_threshold": 1,
                "grpc_health_check": {},
            }
        ],
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": _address(b)}} for b in backends]}
            ],
        },
    }
    if policy == "RING_HASH":
        found["common_lb_config"] = {
            "consistent_hashing_lb_config": {"hash_balance_factor": BUSIEST}
        }
    if layout.backend_ca is not None:
        found["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": f"{_TYPES}.transport_sockets.tls.v3.UpstreamTlsContext",
                "common_tls_context": {
                    "alpn_protocols": ["h2"],
                    "validation_context": {"trusted_ca": {"filename": str(layout.backend_ca)}},
                },
                "auto_host_sni": True,
                "auto_sni_san_validation": True,
            },
        }
    return found
