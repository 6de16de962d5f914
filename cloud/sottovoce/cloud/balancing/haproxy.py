"""A configuration for HAProxy 2.6 or newer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sottovoce.cloud.balancing.layout import (
    BUSIEST,
    CODES,
    REPEATABLE,
    SIGNING,
    TRAINING,
    WITH_MODELS,
    Backend,
    Layout,
)
from sottovoce.core.rpc.channels import TENANT_KEY, TENANTS_ONLY

__all__ = ["configuration"]

_BUFFER: Final = 128 << 10
"""Bytes: HAProxy can repeat a request only while it holds all of the request; texts have 64 KiB."""

_ENROLLMENTS: Final = 5
"""Calls with a code in a minute from one address: half of the failures that a replica allows the
whole balancer.
"""

_HEALTHY: Final = "00000000020801"
"""The end of a gRPC message with SERVING: not compressed, two bytes, field 1 is 1."""


def configuration(layout: Layout) -> str:
    """Return the configuration file, with comments that give the reasons."""
    return "\n".join(_lines(layout)) + "\n"


def _lines(layout: Layout) -> Iterator[str]:
    named = any(backend.most > 1 for backend in (*layout.replicas, *layout.fronts))
    cert = f" ssl crt {layout.tls_cert} alpn h2 ssl-min-ver TLSv1.2" if layout.tls_cert else ""
    yield f"""\
# Made by `sotto-cloud balancer-config`. Check it with `haproxy -c -f FILE`.
global
    # Paths and figures alone are logged: never a header, so no token, tenant or text.
    log stdout format raw local0 info
    tune.bufsize {_BUFFER}
    tune.h2.max-concurrent-streams 256

defaults
    mode http
    log global
    log-format "%ci:%cp %b/%s %HP %ST %tsc %Ta ms %U/%B bytes"
    option dontlognull
    timeout http-request 10s
    timeout connect 1s
    timeout check 2s
    timeout queue 5s
    # A watch of a job that waits says nothing for hours; idle streams are ended by who answers.
    timeout client 6h
    timeout server 6h
    timeout http-keep-alive 10m
    # Who does not take a connection is left for another; more is repeated only where it is said.
    retries 3
    option redispatch 1
"""
    if named:
        yield """\
resolvers dns
    parse-resolv-conf
    hold valid 2s
"""
    if layout.metrics is not None:
        yield f"""\
frontend metrics
    bind {layout.metrics}
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request deny
    option dontlog-normal
"""
    yield f"""\
frontend devices
    bind {layout.listen}{cert or " proto h2"}
    # Of each address, before anybody knows who it is: connections, then calls. gRPC takes status
    # 429 for UNAVAILABLE, upon which devices come again later. Of IPv6, 64 bits are one address.
    stick-table type ipv6 size 100k expire 1m store conn_cur,http_req_rate(10s)
    tcp-request connection track-sc0 src,ipmask(32,64)
    tcp-request connection reject if {{ sc0_conn_cur gt {layout.peer_connections} }}
    http-request deny deny_status 429 if {{ sc0_http_req_rate gt {10 * layout.peer_calls} }}
    # To a replica all that comes from here is one caller: of downloads and other streams that need
    # no token, it could not tell whose gives way to whose.
    acl with_token path_beg {" ".join((*(f"/{name}/" for name in TENANTS_ONLY), SIGNING))}
    http-request track-sc1 src,ipmask(32,64) table strangers unless with_token
    http-request deny deny_status 429 if !with_token {{ sc1_conn_cur gt {layout.peer_streams} }}
    # Wrong codes, too, would be one caller's: of the few that a replica takes a minute, no address
    # may have all.
    acl code path {CODES}
    http-request track-sc2 src,ipmask(32,64) table enrolling if code
    http-request deny deny_status 429 if code {{ sc2_http_req_rate gt {_ENROLLMENTS} }}
    acl customisation path_beg {TRAINING}
    acl with_models path {" ".join(WITH_MODELS)}
    use_backend fronts if customisation !with_models
    default_backend replicas

backend strangers
    stick-table type ipv6 size 100k expire 1m store conn_cur

backend enrolling
    stick-table type ipv6 size 100k expire 1m store http_req_rate(1m)

backend replicas
    # A tenant's calls go where its adapters are, unless that replica has {BUSIEST} % of the mean.
    balance hdr({TENANT_KEY})
    hash-type consistent sdbm avalanche
    hash-balance-factor {BUSIEST}
    # Only what may be sent again byte for byte, and before an answer has begun.
    retry-on conn-failure empty-response
    http-request disable-l7-retry unless {{ path {" ".join(REPEATABLE)} }}"""
    yield from _servers(layout, "replica", layout.replicas)
    yield """
backend fronts
    balance leastconn"""
    yield from _servers(layout, "front", layout.fronts)


def _servers(layout: Layout, name: str, backends: Sequence[Backend]) -> Iterator[str]:
    ca = layout.backend_ca
    if ca:
        secure = f" ssl verify required ca-file {ca} alpn h2 check-ssl check-alpn h2"
    else:
        secure = " proto h2"
    yield "    # grpc.health.v1.Health/Check, as HTTP/2 frames: the answer must say SERVING."
    yield "    option tcp-check"
    yield f"    tcp-check send-binary {health_check().hex()}"
    yield f"    tcp-check expect binary {_HEALTHY}"
    options = "check inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions"
    yield f"    default-server {options}{secure}"
    for number, backend in enumerate(backends, 1):
        tls = f" sni str({backend.host}) check-sni {backend.host} verifyhost {backend.host}"
        rest = f"{backend}{tls if ca else ''}"
        if backend.most > 1:
            place = f"{name}{number}- 1-{backend.most} {rest}"
            yield f"    server-template {place} resolvers dns init-addr none"
        else:
            yield f"    server {name}{number} {rest}"


def health_check() -> bytes:
    """Return a Health/Check call for the whole server, as the start of a connection."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": "health",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    fields = b"".join(b"\0" + _string(n) + _string(value) for n, value in headers.items())
    settings, head, message = _frame(4, 0, 0, b""), _frame(1, 4, 1, fields), bytes(5)
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + head + _frame(0, 1, 1, message)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = bytes([kind, flags]) + stream.to_bytes(4, "big")
    return len(payload).to_bytes(3, "big") + head + payload


def _string(text: str) -> bytes:
    """Encode a text shorter than 127 bytes for HPACK, without Huffman coding."""
    return bytes([len(text)]) + text.encode()
