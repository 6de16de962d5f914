"""``python -m deploy.locks``: write deploy/locks/edge.txt and cloud.txt anew.

Why it is here: a version names no bytes. These name the hash of every file that an index may hand
out for one, so that whoever installs or packages them gets what was tested, and tools that look for
known faults have a list to read. Ours are not in it: nobody fetches them.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

__all__ = ["ASKED", "asked"]

SOURCES: Final = Path(__file__).parents[2]
ASKED: Final = {
    "edge": (("protos", ()), ("core", ()), ("edge", ())),
    "cloud": (("protos", ()), ("core", ()), ("cloud", ("scale",)), ("models", ())),
}
"""Of each list the parts of ours that it is for, and their extras.

Not `graph`: hnswlib is source, which is built where it is installed.
"""
_HEAD: Final = "# Written by `make lock`: what {name} runs on, and the hashes of its files.\n"
_QUIET: Final = ["--quiet", "--no-header", "--strip-extras", "--allow-unsafe"]
_NO_HOSTS: Final = [
    *("--no-emit-index-url", "--no-emit-find-links"),
    *("--no-emit-trusted-host", "--no-emit-options"),
]
"""Where one's own index is, is nobody else's business."""


def asked(name: str, sources: Path = SOURCES) -> list[str]:
    """The requirements of a list's parts, ours left out."""
    found: list[str] = []
    for part, extras in ASKED[name]:
        project: dict[str, Any] = tomllib.loads((sources / part / "pyproject.toml").read_text())
        project = project["project"]
        found += project["dependencies"]
        for extra in extras:
            found += project["optional-dependencies"][extra]
    return sorted({each for each in found if not each.startswith("sottovoce-")})


def main() -> None:
    """Resolves and writes them; what is there already stays, where it still fits."""
    for name in sys.argv[1:] or ASKED:
        file = Path(__file__).with_name(f"{name}.txt")
        compiled = [sys.executable, "-m", "piptools", "compile", "--generate-hashes", *_QUIET]
        compiled += [*_NO_HOSTS, "--constraint", "constraints.txt", "--output-file", str(file), "-"]
        text = "\n".join(asked(name))
        subprocess.run(compiled, input=text, text=True, check=True, cwd=SOURCES)
        body = file.read_text().removeprefix(_HEAD.format(name=name))
        file.write_text(_HEAD.format(name=name) + body)


if __name__ == "__main__":
    main()
