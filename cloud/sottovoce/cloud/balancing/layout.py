"""The processes behind a balancer, and the routing of calls.

Calls are spread by the tenant they name, so that one replica's memory holds a tenant's adapters.
The name has a separate header beside the token, so that no balancer reads the token. The replica
checks that token and name belong together, so a false name finds no adapters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from sottovoce.core.errors import ConfigError
from sottovoce.core.rpc.address import is_ip, is_loopback, split_address
from sottovoce.v1 import enrollment_pb2, inference_pb2, training_pb2

__all__ = ["BUSIEST", "CODES", "REPEATABLE", "SIGNING", "TRAINING", "WITH_MODELS"]
__all__ += ["Backend", "Layout"]

BUSIEST: Final = 150
"""A replica's highest load in percent of the mean; further calls go to the next replica."""

_INFERENCE: Final = inference_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name
_TRAINING: Final = training_pb2.DESCRIPTOR.services_by_name["TrainingService"].full_name
_ENROLLMENT: Final = enrollment_pb2.DESCRIPTOR.services_by_name["EnrollmentService"].full_name
CODES: Final = f"/{_ENROLLMENT}/RedeemCode"
"""The call that needs only a code."""
SIGNING: Final = f"/{_ENROLLMENT}/IssueCertificate"
"""The call of the same service that needs a token."""
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
        """Return the address as text."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Layout:
    """A balancer and the processes behind it.

    Attributes:
        listen: the address for devices.
        replicas, fronts: the processes behind the balancer.
        tls_cert: PEM file of the balancer's certificate chain and its key.
        insecure_plaintext: whether other machines may reach it without TLS.
        backend_ca: PEM of the authority for replicas' and fronts' certificates; None: plaintext.
        peer_calls: calls a second from one address.
        peer_connections: open connections from one address.
        peer_streams: open calls without a token from one address.
        metrics: HOST:PORT of the balancer's metrics, None for none.
    """

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
        """Refuse settings that cannot work, or would be unsafe.

        Raises:
            ConfigError: no replica or front, certificates of bare IP addresses, or plaintext on a
                public address.
        """
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
