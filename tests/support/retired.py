"""Commands that are run at a tag: whether its tree has them.

They cannot be read by their programs, which need the environment of their day. So it is looked up
that the module is there, and that its sources speak of the options.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from typing import Final

from tests.support.documented import Part, Typed
from tests.support.judged import Wrong
from tests.support.paths import ROOT

__all__ = ["judge_retired", "known", "resolves"]

_TREES: Final = {
    "ablations": ("ablations", "5347fe1263f6"),
    "bench-2026-11": ("bench-2026-11", "6d5658d"),
}
"""Each tag, and the commit that bench/README.md names for those who have it not."""


def resolves(reference: str) -> bool:
    """Whether this clone has a commit or tag."""
    asked = ["git", "cat-file", "-e", f"{reference}^{{commit}}"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode == 0


def known(tag: str) -> tuple[str, ...]:
    """What this clone has of a tag by its name or commit; of "the tag", of any."""
    named = [_TREES[tag]] if tag in _TREES else [*_TREES.values()]
    return tuple(found[0] for names in named if (found := [n for n in names if resolves(n)]))


def judge_retired(typed: Typed) -> None:
    """Raises Wrong unless one of the trees that the line can mean has what it asks for."""
    for part in typed.parts:
        if not any(_has(tree, part) for tree in known(typed.retired)):
            raise Wrong(f"{typed.where}: `{typed.line}`: not at {typed.retired}")


def _has(tree: str, part: Part) -> bool:
    options = [word.partition("=")[0] for word in part.words if word.startswith("--")]
    if part.program == "python":
        module = part.words[1].removeprefix("bench.").replace(".", "/")
        pattern = rf"bench/(\w+/)?{module}(\.py|/__main__\.py)"
        named = any(re.fullmatch(pattern, name) for name in _names(tree))
        return named and all(_speaks(tree, "bench", option) for option in options)
    if part.program == "make":
        rules = _git("show", f"{tree}:Makefile")
        return all(re.search(rf"^{word}:", rules, re.MULTILINE) for word in part.words)
    if part.program == "sotto":
        return all(_speaks(tree, "edge", option) for option in options)
    return part.program in ("git", "cd")


@cache
def _names(tree: str) -> tuple[str, ...]:
    return tuple(_git("ls-tree", "-r", "--name-only", tree, "bench/").splitlines())


@cache
def _speaks(tree: str, folder: str, option: str) -> bool:
    return bool(_git("grep", "-lF", f'"{option}"', tree, "--", folder))


def _git(*words: str) -> str:
    asked = ["git", *words]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, check=False, text=True).stdout
