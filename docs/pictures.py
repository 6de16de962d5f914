"""Take docs/ui-*.png of real pages in a real browser: `python -m docs.pictures`.

The bundle is the default one, from `make bundle`. The texts, the provider's tenants and the jobs
are invented.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sottovoce.cloud.job import Progress, State
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.page import changes, endpoints
from sottovoce.edge.cli.client import connect
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_owner_pb2
from tests.support.agent import configured, running
from tests.support.browser import Browser, opened_browser
from tests.support.jobs import claim, create, opened, queued
from tests.support.paths import BUNDLE
from tests.support.provider_page import served
from tests.support.stores import FileStore

FOLDER = Path(__file__).parent
TEXT = "My daughter Hannah has had asthma since March. Can Dr Okafor call me on 020 7946 0958?"
SMALL = (320, 700)
WIDE = (1180, 640)
PAST = (
    *(("acme", State.SUCCEEDED), ("other", State.SUCCEEDED), ("acme", State.FAILED)),
    ("other", State.SUCCEEDED),
)
MESSAGES = {State.FAILED: "training took longer than 300 s, which is the limit"}


def main() -> None:
    """Writes the pictures."""
    of_the_device()
    of_the_provider()


def of_the_provider() -> None:
    """Jobs of two tenants, in most states."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with opened(folder, FileStore()) as jobs, opened_browser(folder) as browser:
            queue = Queue(jobs.database)
            for number, (tenant, state) in enumerate(PAST):
                queued(jobs, f"{number}", tenant)
                _, lease = claim(jobs)
                queue.report(lease, Progress(4, 4, 312, 312, 0.31, 0.0, 0.91, 64.0, 0.0), 300.0)
                queue.finish(lease, state, message=MESSAGES.get(state, ""))
            queued(jobs, "now")
            _, lease = claim(jobs)
            queue.report(lease, Progress(2, 4, 140, 312, 0.48, 0.0, 0.86, 61.0, 84.0), 140.0)
            queued(jobs, "waits", "other")
            create(jobs, "comes")
            with jobs.database.write() as transaction:  # as if they had come over days
                transaction.change("UPDATE jobs SET created = created - 4000 * (7 - number)")
            with served(endpoints(jobs.database, (), (), None), changes(jobs.database)) as server:
                browser.window(*WIDE)
                browser.go(server.link())
                browser.until("document.body.dataset.ready")
                browser.run("document.getElementById('tab-jobs').click()")
                browser.until("document.querySelector('#joblist td')")
                shoot(browser, "cloud", *WIDE)


def of_the_device() -> None:
    """Show texts, ledger and releases."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = configured(folder, bundle=BUNDLE, SOTTO_UI_RECORD="true")
        with (
            running(config) as address,
            connect(address) as device,
            opened_browser(folder) as browser,
        ):
            for text in (TEXT, "The invoice of the plumber is wrong again."):
                device.agent.Privatize(agent.PrivatizeRequest(text=text))
            browser.window(860, 760)
            browser.go(device.owner.OpenPage(edge_owner_pb2.OpenPageRequest()).url)
            browser.until("document.body.dataset.ready")
            browser.run(f"document.getElementById('text').value = {TEXT!r}")
            browser.run("document.getElementById('form').requestSubmit()")
            browser.until("document.querySelectorAll('#tried ol li').length === 5")
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
