"""Fetches public data sets into the folder that the benches read: `make data`.

The command asks before it fetches a set with a licence that you must accept. It keeps existing
files, so an interrupted run continues with the missing files. ``fetched.json`` records the SHA-256
of every fetched file, and later runs must match it. The command reports a file that differs from
the file behind the docs' figures. Sets without a source are made from a seed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import Progress

from bench import cache
from bench.console import STEPS
from bench.data import DATA
from bench.fetch.download import download
from bench.fetch.sources import EDITIONS, LEFT_OUT, MADE, SETS, Source
from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.console import tell

_LARGEST = 200_000_000
"""Size limit of any file, in bytes."""
_NOTED = "fetched.json"


def main() -> int:
    """Fetch the sets; return 1 if something could not be fetched, else 0."""
    known = (*SETS, *MADE)
    parser = ArgumentParser("python -m bench.fetch", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder to fill")
    parser.add_argument("--only", default="", help=f"comma-separated, of {', '.join(known)}")
    parser.add_argument("--accept", action="store_true", help="accept licences without a question")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else known
    if unknown := [name for name in names if name not in known]:
        why = "; ".join(f"{name}: {LEFT_OUT[name]}" for name in unknown if name in LEFT_OUT)
        parser.error(f"not fetched: {', '.join(unknown)}. {why}")
    done: dict[str, str] = {}
    for name in names:
        if name in MADE:
            done[name] = _made(name, asked.data)
        else:
            done[name] = _set(name, SETS[name], asked.data, accept=asked.accept)
    if asked.json:
        print(json.dumps({"folder": str(asked.data), "sets": done, "left_out": LEFT_OUT}))
    else:
        for name, state in (done | {k: f"not fetched: {v}" for k, v in LEFT_OUT.items()}).items():
            print(f"{name:14} {state}")
    return 1 if any(state.startswith("failed") for state in done.values()) else 0


def _set(name: str, source: Source, folder: Path, *, accept: bool) -> str:
    """Make the missing files of a set, and return its status."""
    lacking = [w for w in source.files if not (folder / name / w.name).exists()]
    if not lacking:
        return "is there"
    if source.asks and not accept and not _agreed(name, source):
        return f"left: its licence ({source.licence}) was not accepted; --accept accepts it"
    noted = _noted(folder)
    try:
        with tempfile.TemporaryDirectory() as scratch, Progress(console=STEPS) as progress:
            got: dict[str, Path] = {}
            for wanted in lacking:
                if wanted.url not in got:
                    task = progress.add_task(f"{name} {wanted.url.rsplit('/', 1)[1]}", total=None)
                    got[wanted.url] = Path(scratch) / str(len(got))
                    noted[wanted.url] = download(
                        wanted.url,
                        got[wanted.url],
                        largest=_LARGEST,
                        sha256=wanted.sha256 or noted.get(wanted.url, ""),
                        step=lambda size, task=task: progress.advance(task, size),  # type: ignore[misc]
                    )
                made = wanted.form(got[wanted.url].read_bytes())
                with cache.aside(folder / name / wanted.name) as path:
                    path.write_bytes(gzip.compress(made, mtime=0))
                cache.keep(folder / _NOTED, noted)
    except SottovoceError as error:
        tell(error)
        return f"failed: {error.problem}"
    return "fetched" + _edition(folder, [f"{name}/{each.name}" for each in source.files])


def _made(name: str, folder: Path) -> str:
    for file, make in MADE[name].items():
        with cache.aside(folder / name / file) as path:
            path.write_bytes(gzip.compress(make(), mtime=0))
    return "made from its seed"


def _edition(folder: Path, names: Sequence[str]) -> str:
    """Return a note for files that are not those behind the docs' figures."""
    others = []
    for name in names:
        with gzip.open(folder / name) as file:
            if not hashlib.sha256(file.read()).hexdigest().startswith(EDITIONS.get(name, "")):
                others.append(name)
    return f"; not the edition of the docs' figures: {', '.join(others)}" if others else ""


def _agreed(name: str, source: Source) -> bool:
    if not sys.stdin.isatty():
        return False
    STEPS.print(f"{name}: {source.licence}. Fetch it for that use? (y/N) ", end="")
    return input().strip().lower() in ("y", "yes")


def _noted(folder: Path) -> dict[str, Any]:
    file = folder / _NOTED
    return dict(json.loads(file.read_bytes())) if file.is_file() else {}


if __name__ == "__main__":
    sys.exit(main())
