"""WebNLG: facts, and human sentences about them (Gardent et al. 2017; RAPT v2 section V).

Its sentences name persons, places and numbers, and the facts list them, so restoration is easy to
check.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["FILE", "KNOWN", "Entry", "read"]

FILE: Final = "webnlg/dev.jsonl.gz"
KNOWN: Final = "webnlg/train.jsonl.gz"
"""Further entries, for training."""

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOTE = re.compile(r" \([^)]*\)$")


@dataclass(frozen=True, slots=True)
class Entry:
    """Facts and the human texts about them.

    Attributes:
        facts: "Aarhus Airport | runway length | 2702.0; ...", the input to write from.
        texts: the human texts.
        entities: subjects and objects that occur word for word in the first text.
    """

    facts: str
    texts: tuple[str, ...]
    entities: tuple[str, ...]


def read(file: Path, every: int = 1) -> list[Entry]:
    """Read each ``every``-th entry of a part; a few without a text are left out."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        found = map(json.loads, [*lines][::every])
        return [_entry(each) for each in found if each["texts"]]


def _entry(found: dict[str, Any]) -> Entry:
    triples = [tuple(map(_spoken, triple)) for triple in found["triples"]]
    texts = tuple(" ".join(text.split()) for text in found["texts"])
    named = dict.fromkeys(_NOTE.sub("", part) for one, _, other in triples for part in (one, other))
    return Entry(
        "; ".join(" | ".join(triple) for triple in triples),
        texts,
        tuple(name for name in named if name and name in texts[0]),
    )


def _spoken(part: str) -> str:
    return _HUMP.sub(" ", part.strip('"')).replace("_", " ").strip()
