"""A tenant's adapter names: each a symbolic link to the job that trained it.

A link can be swapped in one step and a folder cannot.
"""

from __future__ import annotations

import os
from pathlib import Path

from sottovoce.cloud.disk import full_disk_is_unavailable
from sottovoce.core.errors import NotFound

__all__ = ["install", "locate", "uninstall"]


def _link(state: Path, tenant: str, name: str) -> Path:
    return state / "adapters" / tenant / name


def locate(state: Path, tenant: str, name: str) -> Path:
    """The folder behind a tenant's adapter name.

    Raises:
        NotFound: the tenant has no such adapter.
    """
    link = _link(state, tenant, name)
    try:
        return link.resolve(strict=True)
    except OSError as error:
        raise NotFound(
            "no such adapter for this tenant",
            fix="train one with `sotto customize NAME`, or see `sotto status` for those there are",
            subject="adapter",
        ) from error


def install(state: Path, tenant: str, name: str, folder: Path) -> None:
    """Makes ``folder`` the tenant's adapter ``name`` in one step.

    Raises:
        Unavailable: the disk is full.
    """
    link = _link(state, tenant, name)
    with full_disk_is_unavailable():
        link.parent.mkdir(parents=True, exist_ok=True)
        temporary = link.with_name(f".{name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(os.path.relpath(folder, link.parent))
        temporary.replace(link)


def uninstall(state: Path, tenant: str, name: str, folder: Path) -> None:
    """Takes the name away if it still stands for ``folder``."""
    link = _link(state, tenant, name)
    if link.is_symlink() and link.resolve() == folder.resolve():
        link.unlink(missing_ok=True)  # worker and server may both be at it
