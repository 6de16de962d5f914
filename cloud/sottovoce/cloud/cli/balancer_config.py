"""``sotto-cloud balancer-config``: HAProxy 2.6 or newer, in front of replicas and fronts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import click

from sottovoce.cloud.cli.options import number_option
from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.console import Command, print_json
from sottovoce.core.rpc.address import is_ip, is_loopback, split_address
from sottovoce.core.rpc.channels import TENANT_KEY, TENANTS_ONLY
from sottovoce.v1 import enrollment_pb2, inference_pb2, training_pb2

BUSIEST: Final = 150
"""A replica's highest load in percent of the mean; further calls go to the next replica."""

_INFERENCE: Final = inference_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name
_TRAINING: Final = training_pb2.DESCRIPTOR.services_by_name["TrainingService"].full_name
_ENROLLMENT: Final = enrollment_pb2.DESCRIPTOR.services_by_name["EnrollmentService"].full_name
CODES: Final = f"/{_ENROLLMENT}/RedeemCode"
"""The call that needs only a code."""
TRAINING: Final = f"/{_TRAINING}/"
"""The path prefix of training calls, which fronts answer."""

WITH_MODELS: Final = (f"/{_TRAINING}/CreateJob", f"/{_TRAINING}/GetAdapter")
"""The training calls that replicas answer."""

REPEATABLE: Final = (f"/{_INFERENCE}/Predict", f"/{_INFERENCE}/Encode")
"""Calls that a balancer may repeat: they change nothing, and equal bytes get equal answers."""

_BACKEND = re.compile(r"(?P<address>[A-Za-z0-9._:\[\]-]+?)(\*(?P<most>[1-9][0-9]{0,3}))?")


@dataclass(frozen=True, slots=True)
class Backend:
    """The address of a process, or a host name that stands for at most ``most`` addresses."""

    host: str
    port: int
    most: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse HOST:PORT or NAME:PORT*MOST.

        Raises:
            ConfigError: the text has neither form.
        """
        found = _BACKEND.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"{text!r} is no address of a process",
                fix="give HOST:PORT, or NAME:PORT*16 for a name with up to 16 addresses",
                subject="address",
            )
        return cls(*split_address(found["address"]), int(found["most"] or 1))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Layout:
    """A balancer and the processes behind it; see the options of the command."""

    listen: Backend
    replicas: tuple[Backend, ...]
    fronts: tuple[Backend, ...]
    tls_cert: Path | None = None
    insecure_plaintext: bool = False
    backend_ca: Path | None = None
    peer_calls: int = 200
    peer_connections: int = 64
    peer_streams: int = 8
    metrics: Backend | None = None

    def __post_init__(self) -> None:
        """Refuse settings that cannot work, or would be unsafe."""
        for name, backends in (("replica", self.replicas), ("front", self.fronts)):
            if not backends:
                raise ConfigError(f"no {name} behind the balancer", fix=f"give --{name} HOST:PORT")
            for backend in backends if self.backend_ca is not None else ():
                if is_ip(backend.host):  # an IP address gives no server name to check
                    raise ConfigError(
                        f"the certificate of {backend} cannot be checked by its address",
                        fix=f"with --backend-ca give --{name} NAME:PORT, the name that its "
                        "certificate has",
                        subject=name,
                    )
        for file in (self.tls_cert, self.backend_ca):
            if file is not None and re.search(r"[\s'\"#\\$]", str(file)):
                raise ConfigError(
                    f"{str(file)!r} cannot be written into a configuration",
                    fix="give a path without spaces, quotes, #, $ and backslashes",
                )
        local = is_loopback(self.listen.host)
        if self.tls_cert is None and not local and not self.insecure_plaintext:
            raise ConfigError(
                f"devices would talk to {self.listen} in plaintext",
                fix="give --tls-cert, listen on 127.0.0.1, or, behind what ends TLS, say "
                "--insecure-plaintext",
            )


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
    # A watch of a waiting job is silent for hours. The servers end idle streams.
    timeout client 6h
    timeout server 6h
    timeout http-keep-alive 10m
    # A refused connection goes to another server. Calls are repeated only as stated below.
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
    # Limits on each address, before authentication: connections, then calls. gRPC reads status
    # 429 as UNAVAILABLE, and devices retry later. 64 bits of IPv6 count as one address.
    stick-table type ipv6 size 100k expire 1m store conn_cur,http_req_rate(10s)
    tcp-request connection track-sc0 src,ipmask(32,64)
    tcp-request connection reject if {{ sc0_conn_cur gt {layout.peer_connections} }}
    http-request deny deny_status 429 if {{ sc0_http_req_rate gt {10 * layout.peer_calls} }}
    # For a replica, this balancer is one caller. So streams without a token, such as downloads,
    # are limited here for each address.
    acl with_token path_beg {" ".join(f"/{name}/" for name in TENANTS_ONLY)}
    http-request track-sc1 src,ipmask(32,64) table strangers unless with_token
    http-request deny deny_status 429 if !with_token {{ sc1_conn_cur gt {layout.peer_streams} }}
    # A replica accepts few wrong codes a minute from one caller, which is this balancer. So no
    # address may use them all.
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
    # A tenant's calls go to the replica with its adapters, up to {BUSIEST} % of the mean load.
    balance hdr({TENANT_KEY})
    hash-type consistent sdbm avalanche
    hash-balance-factor {BUSIEST}
    # Only calls that may be repeated byte for byte, and before an answer has begun.
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


_file = click.Path(dir_okay=False, path_type=Path)


@click.command("balancer-config", cls=Command)
@click.option("--listen", default="0.0.0.0:8471", show_default=True, help="Address for devices.")
@click.option(
    "--replica",
    "replicas",
    multiple=True,
    metavar="HOST:PORT[*MOST]",
    help="A replica, or, with *16, a name that stands for up to 16; may be given again.",
)
@click.option(
    "--front",
    "fronts",
    multiple=True,
    metavar="HOST:PORT[*MOST]",
    help="A front; may be given again.",
)
@click.option("--tls-cert", type=_file, help="PEM file of the certificate chain and its key.")
@click.option(
    "--insecure-plaintext", is_flag=True, help="Allow plaintext on an address others can reach."
)
@click.option(
    "--backend-ca",
    type=_file,
    help="PEM of the authority for replicas' and fronts' certificates.  [default: plaintext]",
)
@number_option("--peer-calls", 200, "Calls a second that one address may make.")
@number_option("--peer-connections", 64, "Connections that one address may hold.")
@number_option(
    "--peer-streams",
    8,
    "Downloads of bundles and other calls without a token that one address may hold open.",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve the balancer's own metrics there, in plaintext."
)
def command(
    listen: str,
    replicas: tuple[str, ...],
    fronts: tuple[str, ...],
    metrics: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Print a configuration of HAProxy before replicas and fronts.

    HAProxy spreads calls by the tenant they name, so that one replica's memory holds the tenant's
    adapters. Calls beyond a replica's share spill over to the next replica. The file also states
    which calls HAProxy may repeat, its health checks, and the limits on one address.
    """
    layout = Layout(
        Backend.parse(listen),
        tuple(map(Backend.parse, replicas)),
        tuple(map(Backend.parse, fronts)),
        metrics=Backend.parse(metrics) if metrics else None,
        **given,
    )
    made = configuration(layout)
    if as_json:
        print_json({"configuration": made})
    else:
        click.echo(made, nl=False)
