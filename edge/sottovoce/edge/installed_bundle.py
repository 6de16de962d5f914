"""The bundle in use: the current one, else one that was installed as a Python package.

``sottovoce-bundle-en`` holds a bundle in ``sottovoce_bundle_en/bundle``. The device maps its files
where pip put them, and never writes there. A pulled or linked bundle comes first.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import MANIFEST
from sottovoce.core.bundle.signature import read_key, show_key
from sottovoce.core.errors import BundleMismatch, NotReady, Remedy
from sottovoce.core.platform.files import atomic, private_folder
from sottovoce.edge.config import BundleConfig

__all__ = [
    "PUBLISHER",
    "InUse",
    "Origin",
    "check_publisher",
    "folder_in_use",
    "in_use",
    "inspect_once",
    "not_there",
    "package",
]

PUBLISHER: Final = Path(__file__).with_name("publisher.pub")
"""The public key of this release's bundle packages. Only built distributions hold the file."""

_INSPECTED: Final = "inspected"
"""The file of the ids of installed bundles whose claims held, beside the pulled bundles."""

_log = logging.getLogger(__name__)


class Origin(Enum):
    """How a bundle came to this device."""

    PULLED = "pulled"
    LINKED = "linked"
    INSTALLED = "installed"


@dataclass(frozen=True, slots=True)
class InUse:
    """The folder of the bundle in use, which may not exist, and the bundle's origin."""

    folder: Path
    origin: Origin


def in_use(config: BundleConfig) -> InUse:
    """Return the bundle that ``current`` points to, else the installed one of the language."""
    folder, installed = _found(config)
    if installed:
        return InUse(folder, Origin.INSTALLED)
    pulled = folder.parent == config.pulled.resolve()
    return InUse(folder, Origin.PULLED if pulled else Origin.LINKED)


def folder_in_use(config: BundleConfig) -> Path:
    """Return the folder of the same bundle; every request asks for it."""
    return _found(config)[0]


def _found(config: BundleConfig) -> tuple[Path, bool]:
    """Return the folder, and whether it is installed."""
    current = config.current
    if not os.path.lexists(current) and (folder := _installed(config.language)):
        return folder, True
    return current.resolve(), False


def package(language: str) -> str:
    """Return the name of the package that holds a language's bundle.

    >>> package("pt-BR")
    'sottovoce-bundle-pt-br'
    """
    return f"sottovoce-bundle-{language.lower()}"


def _installed(language: str) -> Path | None:
    spec = find_spec(package(language).replace("-", "_"))
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (folder := Path(place).resolve() / "bundle").is_dir():
            return folder
    return None


def not_there(config: BundleConfig) -> NotReady:
    """Return the error for a bundle that is not there."""
    current = config.current
    if os.path.lexists(current):
        return NotReady(
            f"{current} points to {current.resolve()}, which is not there",
            fix="remove the link or make it point to a bundle; `sotto pull` replaces it",
            subject="bundle",
        )
    if (config.path / MANIFEST).is_file():
        return NotReady(
            f"bundle.path is a bundle itself: {config.path}",
            fix=f"set it to another folder F, then run `ln -s {config.path.resolve()} F/current`",
            subject="bundle.path",
        )
    return NotReady(f"no bundle at {current}", fix=Remedy.GET_BUNDLE, subject="bundle")


def check_publisher(config: BundleConfig, key: bytes) -> None:
    """Check that ``key`` may sign installed bundles.

    It must be the configured key, else the key in `PUBLISHER`. A program that was not built as a
    distribution names no publisher, and accepts any key.
    """
    if config.key:
        wanted = read_key(config.key)
    elif PUBLISHER.exists():
        wanted = read_key(PUBLISHER.read_text(encoding="ascii"))
    else:
        return
    if key != wanted:
        raise BundleMismatch(
            f"the installed bundle is signed with {show_key(key)}, not with {show_key(wanted)}",
            fix="install the bundle of this release, or set bundle.key to that key if you trust it",
            subject="bundle.key",
        )


def inspect_once(config: BundleConfig, bundle: Bundle) -> None:
    """Check what an installed bundle claims, unless its id was noted after an earlier check."""
    from sottovoce.core.privacy import inspection  # rarely needed

    file = config.path / _INSPECTED
    try:
        noted = file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        noted = []
    if bundle.id in noted:
        return
    _log.warning("measuring what the levels of bundle %s protect: once, some seconds", bundle.id)
    inspection.inspect(bundle, config.language, accept_unchecked=config.accept_unchecked)
    try:
        private_folder(config.path)
        with atomic(file) as out:
            out.write("".join(f"{each}\n" for each in (*noted, bundle.id)).encode())
    except OSError as error:
        _log.warning("the check cannot be noted in %s: %s", file, error.strerror)
