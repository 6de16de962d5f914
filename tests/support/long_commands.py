"""Says of every command of the documents how it is held, and runs those that only take long.

`make docs-commands`; not in `make test`, which types the short ones and has the others read by
their programs. Benches run with ``--quick`` where they have it. What needs another checkout, root,
a registry, or a tool that is not here is listed and not run. The exit code is 1 if one fails.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.documented import PAGES, Part, Typed, read
from tests.support.not_typed import NOT_TYPED, reason
from tests.support.paths import ROOT

__all__ = ["main"]

_RUNS: Final = (
    r"make (help|lint|sbom|docs|clients|bench|report)$",
    r"python -m bench\.(?!NAME|live|scale --jobs)",
    r"python -m tests\.support\.architecture$",
    r"python -m tests\.mutation noise",
)
"""What can run in any checkout with its bundle and data sets."""
_ELSEWHERE: Final = re.compile(r"\.\./|CHECKOUT|--full|--before")
_QUICK: Final = "--quick"


def main() -> int:
    """Lists, and runs; the exit code."""
    parser = argparse.ArgumentParser("python -m tests.support.long_commands", description=__doc__)
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument("--only", default="", help="commands that hold this pattern")
    asked = parser.parse_args()
    for typed in (typed for page in PAGES for typed in read(page)[0]):
        print(f"{typed.where}: {typed.line}\n    {held(typed)}")
    if asked.list:
        return 0
    failed = []
    for part in sorted(set(_long()), key=str):
        if re.search(asked.only, str(part)):
            failed += [] if _run(part) else [str(part)]
    print("\n".join([f"{len(failed)} failed", *failed]))
    return 1 if failed else 0


def held(typed: Typed) -> str:
    pattern = reason(typed)
    if pattern is not None:
        return f"read by its program: {NOT_TYPED[pattern]}"
    return "typed" if typed.block else "read by its program: only named in running text"


def _long() -> Iterator[Part]:
    for page in PAGES:
        for typed in read(page)[0]:
            for part in typed.parts:
                runs = any(re.match(pattern, str(part)) for pattern in _RUNS)
                if runs and not _ELSEWHERE.search(str(part)):
                    yield part


def _run(part: Part) -> bool:
    words = [str(Path(sys.executable)), *part.words] if part.program == "python" else None
    words = words or [part.program, *part.words]
    if part.program == "python" and _QUICK not in words and _takes_quick(words):
        words.append(_QUICK)
    print(f"--- {part}", flush=True)
    began = time.monotonic()
    done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    print(f"--- ended with {done.returncode} after {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


def _takes_quick(words: list[str]) -> bool:
    asked = [*words[:3], "--help"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, check=False, text=True)
    return _QUICK in told.stdout


if __name__ == "__main__":
    sys.exit(main())
