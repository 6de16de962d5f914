"""Draw what crosses to the cloud: `python -m docs.crossing` writes docs/crossing.svg.

The released name and address come from a real release under `personal`. The answer is an example.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from string import Template
from typing import Final
from xml.sax.saxutils import escape

from tests.support.paths import BUNDLE

FILE: Final = Path(__file__).with_name("crossing.svg")
NAME, PLACE = "Priya Nair", "12 Rose Lane"
TEXT: Final = f"My landlord {NAME}, {PLACE}, keeps my deposit. What can I do?"
_PICTURE: Final = Template("""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 250" role="img" aria-labelledby="t d" \
font-family="system-ui, sans-serif" font-size="14">
<title id="t">What crosses from the device to the cloud</title>
<desc id="d">The device holds the typed text with the name $name and an address. The text that \
crosses has another name and another address. The answer comes back about the other name, and the \
device puts $name back.</desc>
<rect x="1" y="1" width="758" height="248" rx="10" fill="#fdfcf9" stroke="#d8d5cc"/>
<g fill="#1d1d1f">
<rect x="20" y="20" width="315" height="210" rx="8" fill="#f4f1e9" stroke="#d8d5cc"/>
<rect x="475" y="20" width="265" height="210" rx="8" fill="#f4f1e9" stroke="#d8d5cc"/>
<text x="36" y="46" font-weight="bold">Your device</text>
<text x="491" y="46" font-weight="bold">Any cloud model</text>
<text x="36" y="78" fill="#5c5c63">typed</text>
<text x="36" y="98">My landlord <tspan font-weight="bold">$name, $place,</tspan></text>
<text x="36" y="118">keeps my deposit. What can I do?</text>
<text x="36" y="178" fill="#5c5c63">restored</text>
<text x="36" y="198">Write to <tspan font-weight="bold">$name</tspan> and ask for ...</text>
<text x="491" y="78" fill="#5c5c63">arrives</text>
<text x="491" y="98">My landlord <tspan fill="#1f5fa8" font-weight="bold">$other,</tspan></text>
<text x="491" y="118"><tspan fill="#1f5fa8" font-weight="bold">$elsewhere,</tspan> ...</text>
<text x="491" y="198">Write to <tspan fill="#1f5fa8" font-weight="bold">$other</tspan> ...</text>
<text x="405" y="90" text-anchor="middle" fill="#5c5c63">only this crosses</text>
<text x="405" y="190" text-anchor="middle" fill="#5c5c63">the answer</text>
</g>
<g stroke="#1f5fa8" stroke-width="2" fill="none">
<path d="M343 104h122m-8-6 8 6-8 6"/>
<path d="M465 204h-122m8-6-8 6 8 6"/>
</g>
</svg>
""")


def main() -> None:
    """Write the picture."""
    other, elsewhere = _released()
    told = {"name": NAME, "place": PLACE, "other": other, "elsewhere": elsewhere}
    FILE.write_text(_PICTURE.substitute({key: escape(each) for key, each in told.items()}), "utf-8")


def _released() -> tuple[str, str]:
    """Return the name and the address of a release."""
    with tempfile.TemporaryDirectory() as home:
        data = Path(home) / ".local" / "share" / "sottovoce"
        data.mkdir(parents=True)
        (data / "current").symlink_to(BUNDLE)
        sotto = str(Path(sys.executable).with_name("sotto"))
        command = [sotto, "try", "--policy", "personal", "--level", "strong", "--json", TEXT]
        environment = {"PATH": os.environ["PATH"], "HOME": home}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    (release,) = json.loads(done.stdout)["tried"][0]["releases"]
    found = re.fullmatch(r"My landlord (.+?), (.+), keeps my deposit\. What can I do\?", release)
    if found is None or NAME in release:
        raise SystemExit(f"no picture can be drawn of: {release}")
    return found[1], found[2]


if __name__ == "__main__":
    main()
