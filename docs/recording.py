"""Records commands as a moving picture: `python -m docs.recording` writes docs/first_minute.svg.

The commands run in a terminal of their own, on the default bundle and an empty state. The picture
asks no other host for anything.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.paths import BUNDLE

FILE: Final = Path(__file__).with_name("first_minute.svg")
COMMANDS: Final = (
    'sotto try --policy personal "My landlord Priya Nair keeps my deposit of 900 euros.'
    ' What can I do?"',
    'sotto try --policy content --level strong "The plumber came while my baby slept."',
)
_COLUMNS: Final = 80
_TYPED_SECONDS: Final = 1.2
_LINE_SECONDS: Final = 0.08


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as home:
        data = Path(home) / ".local" / "share" / "sottovoce"
        data.mkdir(parents=True)
        (data / "current").symlink_to(BUNDLE)
        shown = [(command, _output(command, home)) for command in COMMANDS]
    FILE.write_text(_picture(shown), "utf-8")


def _output(command: str, home: str) -> str:
    """Return the output of a command on a terminal."""
    here, there = pty.openpty()
    programs = str(Path(sys.executable).parent)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": home,
        "TERM": "xterm-256color",
        "COLUMNS": str(_COLUMNS),
    }
    process = subprocess.Popen(
        ["bash", "-c", command], stdin=there, stdout=there, stderr=there, env=environment
    )
    os.close(there)
    pieces = []
    try:
        while piece := os.read(here, 1 << 16):
            pieces.append(piece)
    except OSError:  # a terminal whose other end was closed
        pass
    os.close(here)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, shlex.split(command))
    return b"".join(pieces).decode().replace("\r\n", "\n")


def _picture(shown: list[tuple[str, str]]) -> str:
    """Return an SVG in which each line appears after the one before it."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO())
    seconds, when = 0.5, []
    for command, output in shown:
        for text in (Text(f"$ {command}", "bold"), Text.from_ansi(output.rstrip("\n")), Text()):
            lines = len(text.wrap(console, _COLUMNS))
            console.print(text)
            when += [seconds + line * _LINE_SECONDS for line in range(lines)]
            seconds = when[-1] + (_TYPED_SECONDS if text.plain.startswith("$ ") else _LINE_SECONDS)
    svg = console.export_svg(title="sotto", theme=MONOKAI, unique_id="sotto")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # it names another host
    svg = svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    delays = "".join(f".l{n}{{animation-delay:{at:.2f}s}}" for n, at in enumerate(when))
    moving = "@keyframes show{to{opacity:1}}.l{opacity:0;animation:show .05s forwards}"
    still = "@media(prefers-reduced-motion:reduce){.l{opacity:1;animation:none}}"
    svg = svg.replace("</style>", f"{moving}{delays}{still}</style>", 1)
    return re.sub(
        r'<text class="(sotto-r\d+)"([^>]*#sotto-line-(\d+)\)")', r'<text class="\1 l l\3"\2', svg
    )


if __name__ == "__main__":
    main()
