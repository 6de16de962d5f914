"""``python -m deploy.debian``: build the package, or check one in a clean system."""

from __future__ import annotations

import datetime
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from deploy.debian.check import NOT_CHECKED, Packages, life, linted, same_bytes
from deploy.debian.machine import Unfit, emulated, running, system
from deploy.debian.package import build
from deploy.debian.service import ByHand, Systemd
from deploy.debian.target import ARCHITECTURES, SOURCES, SUITES, Target, epoch
from deploy.debian.wheels import Wheel, fetch, needed
from tests.support.paths import BUNDLE

OUT = SOURCES / "build" / "deb"
CACHE = OUT / "systems"
EARLIER = "0.0.9"
"""What is there before an upgrade: the same sources under a lower number."""

_architectures = click.option(
    "--arch",
    "architectures",
    type=click.Choice(list(ARCHITECTURES)),
    multiple=True,
    default=tuple(ARCHITECTURES),
    show_default=True,
    help="Processor; may be given twice.",
)
_suite = click.option(
    "--suite",
    type=click.Choice(list(SUITES)),
    default="trixie",
    show_default=True,
    help="Release of Debian whose Python the package is for.",
)


@click.group()
def main() -> None:
    """The device as a Debian package."""


@main.command("build")
@_architectures
@_suite
@click.option("--version", "given", default="", help="Of the package.  [default: the device's]")
def build_(architectures: tuple[str, ...], suite: str, given: str) -> None:
    """Fetch the wheels and build build/deb/sottovoce_VERSION_ARCHITECTURE.deb."""
    for architecture in architectures:
        target = Target(architecture, suite)
        try:
            click.echo(built(target, given, fresh=True).relative_to(SOURCES))
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        except PermissionError as error:
            fix = f"fix: sudo chown -R $USER {OUT}"
            raise click.ClickException(f"another user built here before: {error}\n{fix}") from error


@main.command("check")
@_architectures
@_suite
@click.pass_context
def check(ctx: click.Context, architectures: tuple[str, ...], suite: str) -> None:
    """Install, use, upgrade, remove and purge the packages in clean systems; needs root."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # and tidy up
    gaps = 0
    # Both builds have one time, also if a commit is made between them.
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch())
    try:
        for architecture in architectures:
            target = Target(architecture, suite)
            click.echo(f"\n{architecture}, Debian {suite}, Python {target.python}")
            with emulated(target, CACHE) as by:
                _row("runs on", by)
                for what, seen in _checked(target):
                    _row(what, seen)
                    gaps += what == NOT_CHECKED
    except (AssertionError, Unfit) as error:
        click.echo(f"FAILED: {error}", err=True)
        ctx.exit(1)
    finally:
        hand_back(OUT, os.environ)
    click.echo("\nall that was checked holds; see 'not checked'" if gaps else "\nall of it holds")


def _checked(target: Target) -> Iterator[tuple[str, str]]:
    archive = system(target, CACHE)
    made = datetime.date.fromtimestamp(archive.stat().st_mtime)
    yield "clean system", f"Debian's packages of {made}; delete {archive.name} for newer ones"
    newest = built(target, fresh=True)
    yield from linted(newest)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        twin = built(target, fresh=True, out=folder, compression="none")
        yield from same_bytes(newest, twin)
        twin.unlink()
        earlier = built(target, EARLIER, fresh=False, out=folder, compression="none")
        native = platform.machine() == target.machine
        with running(archive, boots=native) as machine:
            service = Systemd(machine) if native else ByHand(machine)
            packages = Packages(earlier, newest)
            yield from life(machine, service, packages, folder / "cloud", BUNDLE)


def _row(what: str, seen: str) -> None:
    click.echo(f"  {what:44} {seen}")


def built(
    target: Target, given: str = "", *, fresh: bool, out: Path = OUT, compression: str = "xz"
) -> Path:
    """Build a package for `target`, from wheels fetched now or earlier."""
    folder = OUT / "wheels" / f"{target.architecture}-{target.suite}"
    time = epoch()
    if fresh or not folder.exists():
        fetch(target, SOURCES, folder, time)
    wheels = needed(map(Wheel.read, sorted(folder.glob("*.whl"))), "sottovoce-edge", target)
    (ours,) = (wheel for wheel in wheels if wheel.name == "sottovoce-edge")
    version = target.version(given or ours.version)
    return build(wheels, target, SOURCES, out, version=version, epoch=time, compression=compression)


def hand_back(folder: Path, environ: Mapping[str, str]) -> None:
    """Give files that root made in `folder` to the caller of sudo, who builds there next."""
    if os.geteuid() != 0 or "SUDO_UID" not in environ or not folder.exists():
        return
    owner = int(environ["SUDO_UID"]), int(environ["SUDO_GID"])
    for _, folders, files, here in os.fwalk(folder):
        os.fchown(here, *owner)
        for name in (*folders, *files):
            os.chown(name, *owner, dir_fd=here, follow_symlinks=False)


if __name__ == "__main__":
    main()
