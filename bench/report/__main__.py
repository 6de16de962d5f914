"""Write the privacy lab's figures as one self-contained page: attack success and utility.

The page takes the figures of the last `python -m bench.attacks` for this bundle, which takes
seconds. Without such figures it measures them: about 15 minutes on 2 idle cores, hours with --full.
It writes index.html and its pictures, and prints the page's path.

    python -m bench.report
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from bench import console
from bench.attacks.harness import FULL, QUICK
from bench.attacks.run import DATA_SETS, Place, measure
from bench.data import require
from bench.report.page import render
from bench.report.pictures import draw
from sottovoce.core.bundle.folder import Bundle

__all__ = ["write"]

_ROOT: Final = Path(__file__).parents[2]


def main() -> None:
    """Write the page."""
    parser = console.parser("report", __doc__, models=True, data="the data sets")
    parser.set_defaults(out=Path("build/report"))
    parser.add_argument("--figures", type=Path, default=Path("build/bench/attacks.json"))
    parser.add_argument("--again", action="store_true", help="measure even if figures exist")
    parser.add_argument("--full", action="store_true", help="measure more than `--quick` does")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="processes of 1 GiB each"
    )
    arguments = parser.parse_args()
    result = None if arguments.again else _kept(arguments.figures, arguments.bundle)
    if result is None:
        require(parser, arguments.data, *DATA_SETS)
        budget = FULL if arguments.full else QUICK
        place = Place(arguments.bundle, arguments.models, arguments.data, budget)
        result = measure(place, processes=arguments.processes)
        result["quick"] = not arguments.full
        arguments.figures.parent.mkdir(parents=True, exist_ok=True)
        arguments.figures.write_text(json.dumps(result), encoding="utf-8")
    page = write(result, arguments.out).resolve()
    print(json.dumps({"page": str(page)}) if arguments.json else page)


def write(result: dict[str, Any], folder: Path) -> Path:
    """Draw the pictures and the page into ``folder``, and return the page's path."""
    pictures = draw(result, folder)
    privacy = (_ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    page = folder / "index.html"
    page.write_text(render(result, pictures, privacy), encoding="utf-8")
    return page


def _kept(figures: Path, bundle: Path) -> dict[str, Any] | None:
    """Return the figures in ``figures``, if they belong to ``bundle``."""
    if not figures.exists():
        console.STEPS.print(f"no figures in {figures}: measuring, about 15 minutes on 2 idle cores")
        return None
    found: dict[str, Any] = json.loads(figures.read_text(encoding="utf-8"))
    if found["bundle"] != Bundle.open(bundle).id:
        console.STEPS.print(f"{figures} is of another bundle: measuring again")
        return None
    return found


if __name__ == "__main__":
    main()
