"""``python -m deploy.dist``: build a release into a folder, or check one in clean environments."""

from __future__ import annotations

import gzip
import re
import shutil
import tarfile
from pathlib import Path
from typing import Final

import click

from deploy.debian.target import ARCHITECTURES, SOURCES, Target, epoch
from deploy.dist import packages
from sottovoce.core.bundle.manifest import sha256
from sottovoce.core.bundle.signature import signing_key

_OUT: Final = SOURCES / "build" / "dist"
_DEBIAN: Final = "trixie"
_folder = click.Path(file_okay=False, path_type=Path)


@click.group()
def main() -> None:
    """A release of Sottovoce."""


@main.command("build")
@click.option("--out", type=_folder, default=_OUT, help="Folder to replace.")
@click.option("--bundle", type=_folder, default=SOURCES / "build" / "bundle-dist")
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    default=SOURCES / "build" / "dist.key",
    help="Private key that signs the bundle (PEM, Ed25519). A missing key is created.",
)
@click.option("--only-packages", is_flag=True, help="Build wheels and source archives alone.")
def build(out: Path, bundle: Path, key: Path, only_packages: bool) -> None:
    """Build the packages, and collect what `make deb`, `make docs` and `make sbom` made."""
    if out.exists() and not (out / "SHA256SUMS").exists() and any(out.iterdir()):
        raise click.ClickException(f"{out} is not empty\nfix: name another folder with --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "SHA256SUMS").touch()  # an interrupted build may be replaced
    time, signs = epoch(), signing_key(key)
    public = signs.public_key().public_bytes_raw()
    for part in packages.PARTS:
        packages.build(SOURCES, part, out / "packages", time, public)
        click.echo(f"sottovoce-{part}")
    packages.build_bundles(SOURCES, bundle, signs, out / "packages", time)
    click.echo("sottovoce-bundle")
    if not only_packages:
        _collect(out, time)
    release = packages.version(SOURCES)
    changes = (SOURCES / "CHANGELOG.md").read_text(encoding="utf-8")
    (out / "NOTES.md").write_text(notes(changes, release), encoding="utf-8")
    (out / "SHA256SUMS").unlink()
    files = sorted(path for path in out.rglob("*") if path.is_file())
    sums = [f"{sha256(path)}  {path.relative_to(out).as_posix()}\n" for path in files]
    (out / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    click.echo(f"{len(files)} files of {release} in {out}")


@main.command("check")
@click.option("--out", type=_folder, default=_OUT, help="Folder of the release.")
@click.option(
    "--python", "pythons", multiple=True, help="Interpreter; may be given more than once."
)
@click.pass_context
def check(ctx: click.Context, out: Path, pythons: tuple[str, ...]) -> None:
    """Install the wheels in clean environments, and walk a new user's first minute there."""
    from deploy.dist.first_minute import interpreters, walk  # needs the cloud, to fetch from

    _check_sums(out)
    checked, skipped = 0, []
    for name, python in interpreters(pythons):
        click.echo(f"\n{name}")
        if python is None:
            click.echo(
                "  skipped: it is neither on PATH nor one of pyenv's; name one with --python"
            )
            skipped.append(name)
            continue
        try:
            for what, seen in walk(python, out / "packages", SOURCES):
                click.echo(f"  {what:34} {seen}")
        except AssertionError as error:
            click.echo(f"FAILED: {error}", err=True)
            ctx.exit(1)
        checked += 1
    if not checked:
        raise click.ClickException("nothing was checked")
    click.echo(f"\n{checked} checked, skipped: {', '.join(skipped) or 'none'}")


def notes(changelog: str, release: str) -> str:
    """Return the section of a release in the changelog.

    Raises:
        click.ClickException: there is none.

    >>> notes("# Changelog\\n\\n## 0.2.0\\n\\nMore.\\n\\n## 0.1.0\\n\\nFirst.\\n", "0.2.0")
    '# Sottovoce 0.2.0\\n\\nMore.\\n'
    """
    for section in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        head, _, text = section.partition("\n")
        if head.split()[0] == release:
            return f"# Sottovoce {release}\n\n{text.strip()}\n"
    raise click.ClickException(f"CHANGELOG.md has no section {release}\nfix: write one")


def _collect(out: Path, time: int) -> None:
    """Copy Debian packages and bills of materials, and pack the site."""
    build, release = SOURCES / "build", packages.version(SOURCES)
    for place in ("deb", "sbom"):
        (out / place).mkdir()
    for architecture in ARCHITECTURES:
        number = Target(architecture, _DEBIAN).version(release)
        shutil.copy(build / "deb" / f"sottovoce_{number}_{architecture}.deb", out / "deb")
    for file in sorted((build / "sbom").glob("*.cdx.json")):
        shutil.copy(file, out / "sbom")
    with (
        gzip.GzipFile(out / "site.tar.gz", "wb", mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in sorted((build / "site").rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(f"site/{path.relative_to(build / 'site').as_posix()}")
                entry.size, entry.mtime = path.stat().st_size, time
                with path.open("rb") as content:
                    archive.addfile(entry, content)


def _check_sums(out: Path) -> None:
    listed = out / "SHA256SUMS"
    if not listed.exists():
        raise click.ClickException(f"there is no release in {out}\nfix: make dist")
    for line in listed.read_text(encoding="ascii").splitlines():
        digest, _, name = line.partition("  ")
        if sha256(out / name) != digest:
            raise click.ClickException(f"{name} is not what was built\nfix: make dist")


if __name__ == "__main__":
    main()
