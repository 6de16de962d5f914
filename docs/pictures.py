"""Takes docs/ui-*.png of a real daemon's page in a real browser: `python -m docs.pictures`.

The bundle is the default one, from `make bundle`; the texts are of nobody.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sottovoce.edge.cli.client import Remote
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import configured, running
from tests.support.browser import Browser, opened_browser
from tests.support.paths import BUNDLE

FOLDER = Path(__file__).parent
TEXT = "My daughter Hannah has had asthma since March. Can Dr Okafor call me on 020 7946 0958?"
SMALL = (320, 700)


def main() -> None:
    """Writes the pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = configured(folder, bundle=BUNDLE, SOTTO_UI_RECORD="true")
        with (
            running(config) as address,
            Remote(address) as device,
            opened_browser(folder) as browser,
        ):
            for text in (TEXT, "The invoice of the plumber is wrong again."):
                device.privatize(agent.PrivatizeRequest(text=text))
            browser.window(860, 760)
            browser.go(device.open_page())
            browser.until("document.body.dataset.ready")
            browser.run(f"document.getElementById('text').value = {TEXT!r}")
            browser.run("document.getElementById('form').requestSubmit()")
            browser.until("document.querySelectorAll('#tried li').length === 5")
            shoot(browser, "try", 860, 760)
            shoot(browser, "try-small-dark", *SMALL, dark=True)
            for tab, ready in (("ledger", "#days td"), ("left", "#leftlist .text")):
                browser.run(f"document.getElementById('tab-{tab}').click()")
                browser.until(f"document.querySelector('{ready}')")
                shoot(browser, tab, 860, 640)


def shoot(browser: Browser, name: str, width: int, height: int, *, dark: bool = False) -> None:
    """Writes one picture."""
    browser.window(width, height, dark=dark)
    browser.run("scrollTo(0, 0)")
    (FOLDER / f"ui-{name}.png").write_bytes(browser.picture())


if __name__ == "__main__":
    main()
