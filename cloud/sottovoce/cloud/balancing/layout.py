"""What stands behind a balancer, and which call goes where.

Calls are spread by the tenant they name, so that one replica's memory holds a tenant's adapters.
The name stands in a header of its own beside the token, so that no balancer reads the token.
The replica checks that token and name belong together, so a false name finds no adapters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from sottovoce.core.errors import ConfigError
from sottovoce.core.wire.address import is_ip, is_loopback, split_address
from sottovoce.v1 import enrollment_pb2, inference_pb2, training_pb2

__all__ = ["BUSIEST", "CODES", "REPEATABLE", "SIGNING", "TRAINING", "WITH_MODELS"]
__all__ += ["Backend", "Layout"]

BUSIEST: Final = 150
"""Percent of the mean load that a replica may bear; what is more spills over to the next."""

_INFERENCE: Final = inference_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name
_TRAINING: Final = training_pb2.DESCRIPTOR.services_by_name["TrainingService"].full_name
_ENROLLMENT: Final = enrollment_pb2.DESCRIPTOR.services_by_name["EnrollmentService"].full_name
CODES: Final = f"/{_ENROLLMENT}/RedeemCode"
"""What is called with a code alone."""
SIGNING: Final = f"/{_ENROLLMENT}/IssueCertificate"
"""What of the same service is called with a token."""
TRAINING: Final = f"/{_TRAINING}/"
"""How the paths of customisation begin, which fronts answer."""

WITH_MODELS: Final = (f"/{_TRAINING}/CreateJob", f"/{_TRAINING}/GetAdapter")
"""Those that replicas answer."""

REPEATABLE: Final = (f"/{_INFERENCE}/Predict", f"/{_INFERENCE}/Encode")
"""What a balancer may send again: it changes nothing, and the same bytes have the same answer."""

_BACKEND = re.compile(r"(?P<address>[A-Za-z0-9._:\[\]-]+?)(\*(?P<most>[1-9][0-9]{0,3}))?")


@dataclass(frozen=True, slots=True)
class Backend:
    """Where a process listens; ``most``: the host is a name of as many addresses, at most."""

    host: str
    port: int
    most: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of HOST:PORT or NAME:PORT*MOST.

        Raises:
            ConfigError: it is neither.
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
        """As addresses are written."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Layout:
    """A balancer and what is behind it.

    Attributes:
        listen: where devices call.
        replicas, fronts: what answers.
        tls_cert: PEM file of the balancer's certificate chain and its key.
        insecure_plaintext: whether others may reach it without TLS.
        backend_ca: PEM of who signed the certificates of replicas and fronts; None: plaintext.
        peer_calls: a second, of one address.
        peer_connections: at once, of one address.
        peer_streams: calls that need no token, open at once, of one address.
        metrics: HOST:PORT of the balancer's own, None for none.
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
        """Refuses what could not work, or would be unsafe.

        Raises:
            ConfigError: nobody who answers, certificates of bare IP addresses, or plaintext on a
                public address.
        """
        for name, backends in (("replica", self.replicas), ("front", self.fronts)):
            if not backends:
                raise ConfigError(f"no {name} behind the balancer", fix=f"give --{name} HOST:PORT")
            for backend in backends if self.backend_ca is not None else ():
                if is_ip(backend.host):  # no server name to ask for, and none to compare
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
