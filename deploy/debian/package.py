"""The package: its tree, its control files, and the archive that holds both.

Everything that a build puts in is a function of the sources, the wheels and one point in time, so
that two builds give the same bytes.
"""

from __future__ import annotations

import datetime
import email.utils
import gzip
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from click.shell_completion import get_completion_class

from deploy.debian.manual import pages
from deploy.debian.target import Target
from deploy.debian.wheels import Wheel, unpack
from sottovoce.edge.cli import main, service
from sottovoce.edge.config import MACHINE

NAME: Final = "sottovoce"
HOME: Final = PurePosixPath("/usr/lib/sottovoce")
"""The virtual environment."""
_DOC: Final = PurePosixPath("/usr/share/doc/sottovoce")
_EXAMPLE: Final = _DOC / "examples/agent.toml"
_SCRIPTS: Final = Path(__file__).parent / "scripts"
_COMPLETIONS: Final = {
    "bash": "usr/share/bash-completion/completions/sotto",
    "zsh": "usr/share/zsh/vendor-completions/_sotto",
    "fish": "usr/share/fish/vendor_completions.d/sotto.fish",
}
_FILES: Final = {
    str(MACHINE): "Settings of the machine's agent.",
    str(_EXAMPLE): "Every setting, explained.",
    "~/.config/sottovoce/agent.toml": "A user's own settings, which go before the machine's.",
    "/var/lib/sottovoce": "The machine's agent's state and bundles; `apt purge` deletes them.",
}
_START = f"""\
#!{HOME}/bin/python3 -I
from sottovoce.edge.__main__ import main

main()
"""
_ENVIRONMENT = """\
home = /usr/bin
include-system-site-packages = false
version = {python}
"""
_CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Depends: python3 (>= {python}~), python3 (<< {next_python}~), libc6 (>= 2.28), libstdc++6, adduser
Recommends: ca-certificates
Section: net
Priority: optional
Description: privatises text on the device before it meets a cloud model
 A daemon for apps and the command sotto: they customise and use a large
 language model in the cloud, and no text leaves the device in the clear.
 .
 The packages of Python that it needs come with it, in a virtual environment
 of their own; no compiler is needed, and no torch. `sotto pull` fetches the
 bundle of word tables and small models from a provider.
"""
_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Sottovoce
Comment: What follows the first paragraph comes from the Python Package Index, as it is there; the
 hash of each file that was fetched is in {doc}/wheels. Texts of licences lie in the
 folders *.dist-info below {home}/lib.

Files: *
Copyright: {year} The Sottovoce authors
License: Apache-2.0
 On Debian systems the whole text is in /usr/share/common-licenses/Apache-2.0.
"""
_CHANGES = """\
{name} ({version}) {suite}; urgency=medium

  * See CHANGELOG.md.gz.

 -- {maintainer}  {date}
"""
_PART = """
Files: {files}
Copyright: the authors of {name} {version}
License: {licence}
 See {texts}.
"""


def build(
    wheels: Iterable[Wheel],
    target: Target,
    sources: Path,
    out: Path,
    *,
    version: str,
    epoch: int,
    compression: str = "xz",
) -> Path:
    """Build a package.

    Args:
        sources: the repository's root.
        version: of the package, as Debian writes it.
        epoch: the time of all its files, in seconds since 1970.
        compression: "none" is quick and large.

    Returns:
        The file ``sottovoce_VERSION_ARCHITECTURE.deb``.

    Raises:
        subprocess.CalledProcessError: dpkg-deb failed, and printed why.
    """
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{NAME}_{version}_{target.architecture}.deb"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        wheels = list(wheels)
        _environment(root, wheels, target)
        _service(root)
        when = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
        _manuals(root, version, when)
        _documents(root, wheels, sources, when)
        _changes(root, sources, version, target, when)
        _control(root, target, version)
        _normalise(root, epoch)
        # One thread: with more, xz's blocks are cut elsewhere.
        options = ["--root-owner-group", f"-Z{compression}", "--threads-max=1", "--build"]
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
        subprocess.run(
            ["dpkg-deb", *options, str(root), str(file)],
            check=True,
            env=env,
            stdout=subprocess.DEVNULL,
        )
    return file


def _place(root: Path, path: PurePosixPath | Path | str) -> Path:
    """Return the place of an absolute path in the tree, and make its folder."""
    place = root / str(path).lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _environment(root: Path, wheels: list[Wheel], target: Target) -> None:
    """A virtual environment, as PEP 405 has it, over the system's own Python."""
    _place(root, HOME / "pyvenv.cfg").write_text(_ENVIRONMENT.format(python=target.python))
    _place(root, HOME / "bin/python3").symlink_to(f"../../../bin/python{target.python}")
    start = _place(root, HOME / "bin/sotto")
    start.write_text(_START)
    start.chmod(0o755)
    _place(root, "usr/bin/sotto").symlink_to("../lib/sottovoce/bin/sotto")
    site = _place(root, HOME / f"lib/python{target.python}/site-packages")
    for wheel in wheels:
        unpack(wheel, site)


def _service(root: Path) -> None:
    unit = _place(root, f"usr/lib/systemd/system/{service.NAME}")
    unit.write_text(service.packaged_unit(Path(HOME / "bin/sotto")))
    settings = _place(root, MACHINE)
    settings.write_text(service.settings_of_the_machine(str(_EXAMPLE)))


def _manuals(root: Path, version: str, when: datetime.datetime) -> None:
    date = when.date().isoformat()
    for name, text in pages(main, "sotto", version=version, date=date, files=_FILES):
        place = _place(root, f"usr/share/man/man1/{name}.1.gz")
        place.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    for shell, path in _COMPLETIONS.items():
        found = get_completion_class(shell)
        assert found is not None, shell
        script = found(main, {}, "sotto", "_SOTTO_COMPLETE").source()
        _place(root, path).write_text(script + "\n")


def _documents(root: Path, wheels: list[Wheel], sources: Path, when: datetime.datetime) -> None:
    others = [wheel for wheel in wheels if not wheel.name.startswith("sottovoce")]
    folders = _folders(others)
    below = f"{HOME}/lib/*/site-packages"
    parts = (
        _PART.format(
            files="\n ".join(f"{below}/{folder}" for folder in folders[wheel.name]),
            name=wheel.name,
            version=wheel.version,
            licence=wheel.licence,
            texts=f"{wheel.name.replace('-', '_')}-{wheel.version}.dist-info",
        )
        for wheel in others
    )
    copyright_ = _COPYRIGHT.format(home=HOME, doc=_DOC, year=when.year) + "".join(parts)
    _place(root, _DOC / "copyright").write_text(copyright_, encoding="utf-8")
    lines = (f"{wheel.sha256}  {wheel.file.name}\n" for wheel in others)
    _place(root, _DOC / "wheels").write_text("".join(lines))
    shutil.copyfile(sources / "edge/packaging/agent.toml", _place(root, _EXAMPLE))


def _folders(wheels: list[Wheel]) -> dict[str, list[str]]:
    """Patterns of what each wheel brings, by its name: folders and files of the first level, or of
    the second below a folder that several share."""
    brings = {wheel.name: set(wheel.files.values()) for wheel in wheels}
    owners = Counter(top for files in brings.values() for top in {path.parts[0] for path in files})
    return {
        name: sorted({_pattern(path, 1 if owners[path.parts[0]] == 1 else 2) for path in files})
        for name, files in brings.items()
    }


def _pattern(path: PurePosixPath, depth: int) -> str:
    return "/".join(path.parts[:depth]) + ("/*" if len(path.parts) > depth else "")


def _changes(
    root: Path, sources: Path, version: str, target: Target, when: datetime.datetime
) -> None:
    """Return our changelog, and Debian's one, which points to ours."""
    ours = (sources / "CHANGELOG.md").read_bytes()
    theirs = _CHANGES.format(
        name=NAME,
        version=version,
        suite=target.suite,
        maintainer=_maintainer(),
        date=email.utils.format_datetime(when),
    )
    for file, text in (("CHANGELOG.md.gz", ours), ("changelog.gz", theirs.encode())):
        _place(root, _DOC / file).write_bytes(gzip.compress(text, 9, mtime=0))


def _maintainer() -> str:
    """Return the package's maintainer, in the form of Debian's tools."""
    name = os.environ.get("DEBFULLNAME", "The Sottovoce authors")
    return f"{name} <{os.environ.get('DEBEMAIL', 'root@localhost')}>"


def _control(root: Path, target: Target, version: str) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    size = sum(-(-path.stat().st_size // 1024) for path in files)
    sums = "".join(
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"
        f"  {path.relative_to(root)}\n"
        for path in files
        if path != _place(root, MACHINE)
    )
    control = _CONTROL.format(
        name=NAME,
        version=version,
        architecture=target.architecture,
        maintainer=_maintainer(),
        size=size,
        python=target.python,
        next_python=target.next_python,
    )
    _place(root, "DEBIAN/control").write_text(control)
    _place(root, "DEBIAN/md5sums").write_text(sums)
    _place(root, "DEBIAN/conffiles").write_text(f"{MACHINE}\n")
    for script in sorted(_SCRIPTS.iterdir()):
        place = _place(root, f"DEBIAN/{script.name}")
        place.write_text(script.read_text().replace("@PYTHON@", target.python))
        place.chmod(0o755)


def _normalise(root: Path, epoch: int) -> None:
    """Set modes and times to fixed values."""
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if runs else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
