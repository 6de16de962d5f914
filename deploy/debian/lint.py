"""What Debian's own critic of packages finds, beside what is so on purpose."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["ON_PURPOSE", "linted", "unexpected"]

ON_PURPOSE: Final = frozenset(
    [
        # Wheels are packaged as their makers built them: whoever compares hashes finds them.
        "embedded-library",
        "library-not-linked-against-libc",
        "shared-library-lacks-prerequisites",
        "unstripped-binary-or-object",
        "unusual-interpreter",
        # Its programs run on the virtual environment's Python.
        "wrong-path-for-interpreter",
        # Whoever packages it for others says who they are: DEBEMAIL.
        "bogus-mail-host",
        "bogus-mail-host-in-debian-changelog",
        "root-in-contact",
    ]
)
"""Errors and warnings that stay, and why."""


def linted(package: Path) -> Iterator[tuple[str, str]]:
    """Has lintian look at a package, where it is installed.

    Raises:
        AssertionError: it found what is not on purpose.
    """
    if shutil.which("lintian") is None:
        yield "lintian", "not here: apt-get install lintian"
        return
    options = ["--allow-root", "--fail-on", "none", "--tag-display-limit", "0"]
    done = subprocess.run(
        ["lintian", *options, str(package)], check=True, capture_output=True, text=True
    )
    wrong = unexpected(done.stdout)
    assert not wrong, "lintian: " + "\n".join(wrong)
    yield "lintian", "no error or warning but those on purpose"


def unexpected(said: str) -> list[str]:
    """The lines about errors and warnings that are not on purpose."""
    lines = (re.match(r"[EW]: \S+: (\S+)", line) for line in said.splitlines())
    return [found.string for found in lines if found and found[1] not in ON_PURPOSE]
