"""``sotto enroll``: exchange a provider's code for a token that the device makes. ``sotto pull``.

The token is on disk before the cloud receives its hash. After an interruption, the same code and
the same token complete the enrolment. The token is never sent to another cloud or used with another
code, because the token grants access where it was accepted.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from sottovoce.core.bundle.manifest import ENCODER, FULL_FINDER, MANIFEST, Manifest
from sottovoce.core.bundle.signature import read_key, show_key
from sottovoce.core.errors import InvalidInput, NotReady, Remedy, Side, Unauthenticated
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    print_json,
    progress_bar,
)
from sottovoce.core.platform.files import (
    as_owner_of,
    atomic,
    disk,
    private_folder,
    sweep,
    sync_folder,
)
from sottovoce.edge.bundle import pull
from sottovoce.edge.cli.common import PATH, load_config, not_as_root
from sottovoce.edge.cli.config import place, write
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.connection import SecretFile
from sottovoce.edge.state.adapters import ADAPTERS, any_held
from sottovoce.v1 import enrollment_pb2

_CODES_LAST: Final = 86_400.0
"""Longest lifetime of a code, in seconds."""
_SCOPES: Final = {
    enrollment_pb2.TOKEN_SCOPE_ALL: "all",
    enrollment_pb2.TOKEN_SCOPE_TRAIN: "train",
    enrollment_pb2.TOKEN_SCOPE_PREDICT: "predict",
}


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The device's identity at the cloud; ``ends`` None means never."""

    tenant: str
    name: str
    scope: str
    ends: datetime | None


@contextmanager
def enroll(cloud: Cloud, code: str, token_file: Path) -> Iterator[Enrolled]:
    """Redeem a code and store the token for later calls.

    The token takes effect when the block ends without an exception. After an exception the same
    code may be tried again.

    Args:
        token_file: is replaced, mode 0600; root writes it as the owner of its folder.

    Raises:
        Unauthenticated: the code is wrong, used or expired.
        Unavailable: the cloud does not answer; the same code may be tried again.
    """
    waiting = token_file.with_name(f"{token_file.name}.{_mark(cloud, code)}.new")
    with as_owner_of(token_file):
        if not token_file.parent.exists():
            private_folder(token_file.parent)
        sweep(token_file.parent, f"{glob.escape(token_file.name)}.*.new")  # of any code
        token = _kept(waiting)
    try:
        answer = cloud.redeem_code(code, hashlib.sha256(token.encode()).digest())
    except (InvalidInput, Unauthenticated):
        with as_owner_of(token_file):
            waiting.unlink(missing_ok=True)  # the token granted no access
        raise
    yield Enrolled(
        answer.tenant,
        answer.name,
        _SCOPES.get(answer.scope, "unknown"),
        answer.end_time.ToDatetime(UTC) if answer.HasField("end_time") else None,
    )
    with as_owner_of(token_file), disk(token_file):
        waiting.replace(token_file)
        for other in token_file.parent.glob(f"{glob.escape(token_file.name)}.*.new"):
            with suppress(FileNotFoundError):  # another enrolment has ended meanwhile
                if time.time() - other.stat().st_mtime > _CODES_LAST:
                    other.unlink()  # of a code that failed and cannot succeed any more
        sync_folder(token_file.parent)


def _mark(cloud: Cloud, code: str) -> str:
    """Return a mark that identifies a cloud and a code, in any spelling of the code."""
    typed = "".join(filter(str.isalnum, code)).upper()
    return hashlib.sha256(f"{cloud.address} {typed}".encode()).hexdigest()[:16]


def _kept(file: Path) -> str:
    """Return the token of an interrupted attempt, or a new token, already on disk."""
    if file.exists():
        return SecretFile(file, "cloud.token_file", "token").read()
    token = secrets.token_urlsafe(32)
    with atomic(file) as out:
        out.write(f"{token}\n".encode("ascii"))
    return token


@click.command("enroll", cls=Command)
@click.argument("code", default="")
@click.option("--address", metavar="HOST[:PORT]", help="The cloud.  [default: configured]")
@click.option(
    "--ca-file",
    type=PATH,
    help="Certificate authority of the cloud.  [default: configured, else the public ones]",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where this device's token goes.  [default: configured, else cloud.token in its state]",
)
def enroll_command(
    code: str,
    address: str | None,
    ca_file: Path | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Register this device with a cloud, by the CODE that the provider reads out.

    The device makes a token, and the code lets the cloud accept this token; both go over TLS. The
    tenant, the token file, the address and a given CA file are written into the configuration. A
    running agent applies them after a restart. If the connection breaks, run the command again with
    the same code. Without CODE, it asks for the code.
    """
    config = load_config()
    code = code or click.prompt("code", err=True)
    settings = dataclasses.replace(
        config.cloud,
        address=address or config.cloud.address,
        ca_file=ca_file.absolute() if ca_file else config.cloud.ca_file,
    )
    if not settings.address:
        raise NotReady(
            "no cloud is configured", fix="name it with --address HOST:PORT", subject="address"
        )
    file = (token_file or settings.token_file or config.agent.state / "cloud.token").absolute()
    values: dict[str, str] = {"token_file": str(file), "address": settings.address}
    if settings.ca_file is not None:
        values["ca_file"] = str(settings.ca_file)
    # As root, drop to the settings' owner, because the settings say where the token is written.
    whose = as_owner_of(place(config))
    with whose, closing(Cloud(settings)) as cloud, enroll(cloud, code, file) as done:
        values["tenant"] = done.tenant
        written = write(config, {f"cloud.{key}": value for key, value in values.items()})
    if as_json:
        print_json(
            {
                "tenant": done.tenant,
                "name": done.name,
                "scope": done.scope,
                "ends": done.ends.isoformat(timespec="seconds") if done.ends else None,
                "token_file": str(file),
                "config": str(written),
            }
        )
        return
    until = f" until {done.ends:%Y-%m-%d}" if done.ends else ""
    click.echo(f"this device is {done.name} of {done.tenant}{until}, for: {done.scope}")
    click.echo(f"its token is in {file}, and {written} names it")


@click.command("pull", cls=Command)
@click.argument("address", metavar="[HOST[:PORT]]", required=False)
@click.option("--bundle", "wanted", default="", help="Bundle id.  [default: the cloud's own]")
@click.option(
    "--ca-file",
    type=PATH,
    help="Certificate authority of the cloud.  [default: configured, else the public ones]",
)
@click.option(
    "--key",
    default="",
    help="The provider's public key, ed25519:..., which the bundle must be signed with. It replaces"
    " a key noted before.",
)
@click.option(
    "--encoder",
    is_flag=True,
    help="Also fetch the device's version of the backbone. With it, conversations find names better"
    " and adapters answer on the device.",
)
def pull_command(
    address: str | None,
    wanted: str,
    ca_file: Path | None,
    key: str,
    encoder: bool,
    as_json: bool,
) -> None:
    """Fetch the bundle from a cloud, or update it.

    An interrupted pull goes on where it stopped. Every file is checked against the manifest before
    the bundle is used; a running agent then uses it without a restart. The first pull notes the key
    that signed the bundle; later pulls refuse other keys. Needs no account. HOST is by default the
    configured cloud, and PORT 8471. A device that has the encoder gets the new bundle's encoder
    too.
    """
    expected = read_key(key) if key else None
    config = load_config()
    not_as_root(config)
    cloud_config = dataclasses.replace(
        config.cloud,
        address=address or config.cloud.address,
        ca_file=ca_file or config.cloud.ca_file,
    )
    if_interrupted(
        "what has arrived is kept, and the bundle in use is as before",
        "run `sotto pull` again to go on",
    )
    with closing(Cloud(cloud_config)) as cloud, progress_bar() as bar:
        task = bar.add_task("pulling", total=None, note="")

        def progress(name: str, done: int, total: int) -> None:
            bar.update(task, completed=done >> 10, total=total >> 10, note=f"KiB  {name}")

        pulled = pull(
            cloud, config.bundle, wanted=wanted, encoder=encoder, key=expected, progress=progress
        )
    offered = Manifest.from_json((pulled.folder / MANIFEST).read_bytes()).optional
    if not pulled.encoder and any_held(config.agent.state / ADAPTERS):
        remedy = Remedy.GET_ENCODER if offered else Remedy.BUILD_ENCODER
        click.echo(
            "the adapters on this device cannot answer without the bundle's encoder: "
            f"{remedy.value[Side.DEVICE]}",
            err=True,
        )
    if as_json:
        print_json(
            {
                "bundle_id": pulled.id,
                "folder": str(pulled.folder),
                "bytes": pulled.bytes,
                "key": show_key(pulled.key),
                "up_to_date": pulled.up_to_date,
                "encoder": pulled.encoder,
            }
        )
    elif pulled.up_to_date:
        click.echo(f"bundle {pulled.id} is up to date")
    else:
        size = f"{pulled.bytes / 1e6:.1f} MB"
        click.echo(f"bundle {pulled.id} is in place ({size}), signed by {show_key(pulled.key)}")
        if not pulled.encoder and f"{ENCODER}/{FULL_FINDER}" in offered:
            more = sum(stored.bytes for stored in offered.values())
            click.echo(
                "conversations find names better with its encoder: `sotto pull --encoder`"
                f" ({more / 1e6:.0f} MB)"
            )
