"""An agent for tests: settings in a folder of its own, its parts, its daemon on a thread."""

from __future__ import annotations

import datetime
import ipaddress
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.config import Config, load
from sottovoce.edge.daemon import server
from sottovoce.edge.tasks.agent import Agent
from sottovoce.edge.tasks.engine import Engine

TOKEN = "correct horse"  # noqa: S105 - of a server that lives for one test


def configured(folder: Path, *, bundle: Path | None = None, **environ: str) -> Config:
    """Settings under `folder`, with `bundle` linked as the current one."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    token = folder / "token"
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text(f"{TOKEN}\n")
    places = {
        "HOME": str(home),
        "SOTTO_AGENT_LISTEN": f"unix:{folder / 'agent.sock'}",
        "SOTTO_CLOUD_TENANT": "t",
        "SOTTO_CLOUD_TOKEN_FILE": str(token),
    }
    config = load(environ=places | environ)
    if bundle is not None:
        config.bundle.path.mkdir(parents=True, exist_ok=True)
        config.bundle.current.symlink_to(bundle)
    return config


def engine(config: Config, tagger: Tagger) -> Engine:
    """The engine over the linked bundle with a tagger that the bundle does not hold."""
    return Engine(config.bundle, config.privacy, lambda _: tagger, "test")


@contextmanager
def opened(config: Config, tagger: Tagger) -> Iterator[Agent]:
    """All parts of an agent, closed at the end."""
    parts = Agent(config, engine(config, tagger))
    try:
        yield parts
    finally:
        parts.close()


@contextmanager
def running(config: Config, tagger: Tagger | None = None) -> Iterator[str]:
    """A daemon on a thread of its own; gives its address."""
    ready, stop = threading.Event(), threading.Event()
    addresses: list[str] = []
    failed: list[BaseException] = []

    def listen(address: str) -> None:
        addresses.append(address)
        ready.set()

    def run() -> None:
        try:
            custom = engine(config, tagger) if tagger is not None else None
            server.serve(config, engine=custom, ready=listen, stop=stop)
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(30)
    if failed:
        thread.join()
        raise failed[0]
    try:
        yield addresses[0]
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()
        assert failed == []


@dataclass(frozen=True)
class Certificate:
    """A certificate for 127.0.0.1 that is its own authority, as PEM."""

    key: bytes
    certificate: bytes

    @classmethod
    def make(cls) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
        now = datetime.datetime.now(datetime.UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        return cls(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
            certificate.public_bytes(pem),
        )
