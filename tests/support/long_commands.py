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
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from tests.support.documented import PAGES, Part, Typed, read
from tests.support.not_typed import NOT_TYPED, reason
from tests.support.paths import ROOT

_RUNS: Final = (
    r"make (help|lint|sbom|docs|clients|bench)$",
    r"python -m bench\.(?!NAME|live)",
    r"python -m tests\.support\.architecture$",
    r"python -m tests\.mutation noise",
)
"""What can run in any checkout with its bundle and data sets."""
_ELSEWHERE: Final = re.compile(r"\.\./|\b[A-Z]{4,}\b|--full|--before")
"""What needs another checkout, the reader's own file, a night or a hub."""
_MADE: Final = re.compile(r"build/[\w-]+$")
"""A folder that the page's reader has made before."""
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
    for words in sorted({tuple(_words(part)) for part in _long()}):
        line = " ".join(words)
        if re.search(asked.only, line):
            failed += [] if _run(words) else [line]
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
                if runs and not _ELSEWHERE.search(str(part)) and all(map(_here, part.words)):
                    yield part


def _here(word: str) -> bool:
    return not _MADE.match(word) or (ROOT / word).exists()


def _words(part: Part) -> list[str]:
    if part.program != "python":
        return [part.program, *part.words]
    words = [sys.executable, *part.words]
    return [*words, _QUICK] if _QUICK not in words and _quick(words[2]) else words


def _run(words: Sequence[str]) -> bool:
    print(f"--- {' '.join(words)}", flush=True)
    began = time.monotonic()
    done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    print(f"--- ended with {done.returncode} after {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


@cache
def _quick(module: str) -> bool:
    asked = [sys.executable, "-m", module, "--help"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, check=False, text=True)
    return _QUICK in told.stdout


if __name__ == "__main__":
    sys.exit(main())
