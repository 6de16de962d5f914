"""What each environment holds, version by version and byte by byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

FOLDER: Final = Path(__file__).parent


def entries(text: str) -> dict[str, str]:
    """Return the entries of a list: the lines of each pin (``name==version ; marker``)."""
    found = re.findall(r"^[a-z0-9].*(?:\n +--hash=.*)*\n", text, re.MULTILINE)
    return {entry.partition("\n")[0].rstrip("\\ "): entry for entry in found}


def for_machine(text: str, markers: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and lines of a list's entries for a machine, without markers.

    Args:
        text: the list.
        markers: differences from the running Python, by PEP 508's names.
    """
    for pin, entry in entries(text).items():
        requirement = Requirement(pin)
        if requirement.marker is None or requirement.marker.evaluate(dict(markers)):
            (version,) = requirement.specifier
            bare = pin.partition(" ;")[0]
            yield requirement.name, version.version, bare + entry.removeprefix(pin)
