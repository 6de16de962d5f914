"""The tutorials of the docs, as far as a device without the checkout types them.

The app of `docs/tutorial_app.md` is taken from the page. The cloud of `docs/tutorial_classifier.md`
is the checkout's; the device calls it with its wheels alone.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.live.testbed import Cloud
from deploy.dist.user import User, check
from tests.support.upstream_server import openai_server

__all__ = ["app", "classifier"]

_PYTHON: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAID: Final = "Write to Dr Elena Marsh that order 68042 is late."
_QUESTION: Final = "the tap in the kitchen drips again and the sink is full"
_LABEL: Final = "plumbing"
_TENANT: Final = "alice"


def app(user: User, sources: Path) -> Iterator[tuple[str, str]]:
    """Walk `docs/tutorial_app.md`; return each step with what it showed.

    Args:
        user: has installed the device with a bundle.
        sources: the checkout, with the page.

    Raises:
        Failed: a step failed.
    """
    page = sources / "docs" / "tutorial_app.md"
    (program,) = _PYTHON.findall(page.read_text(encoding="utf-8"))
    check(_SAID in program, f"{page.name} says another text now")
    (user.home / "app.py").write_text(program, encoding="utf-8")
    with openai_server() as server:
        user.sotto("config", "set", "chat.upstream", server.url)
        with user.serving():
            answer = user.sotto("run", "--", "python", "app.py")
        check(_SAID in answer, f"the app got another text back: {answer}")
        seen = str([body for _, _, body in server.asked])
    check(bool(server.asked), "the server was not asked")
    check(not any(each in seen for each in ("Elena", "Marsh", "68042")), "a name reached the server")
    yield "tutorial: an app", "got its names back; the server saw others"


def classifier(user: User, sources: Path) -> Iterator[tuple[str, str]]:
    """Walk `docs/tutorial_classifier.md`, and the doctor of `docs/tutorial_pi.md`.

    Args:
        user: has installed the device; a bundle comes from the cloud.
        sources: the checkout, with the cloud, its bundle and the examples.

    Raises:
        Failed: a step failed.
    """
    folder = user.home.parent / "provider"
    folder.mkdir()
    shutil.copy(sources / "examples" / "helpdesk" / "train.tsv", user.home)
    cloud = Cloud.at(folder, sources / "build" / "bundle-dist")
    token = cloud.enroll(_TENANT)
    cloud.start()
    try:
        user.set(
            SOTTO_CLOUD_ADDRESS=cloud.address,
            SOTTO_CLOUD_TENANT=_TENANT,
            SOTTO_CLOUD_TOKEN_FILE=str(token),
        )
        user.sotto("pull")
        with user.serving():
            doctor = json.loads(user.sotto("doctor", "--json"))
            yield "tutorial: a board, sotto doctor", f"{len(doctor['checks'])} checks"
            user.sotto("try", "My daughter Hannah has had asthma since March", "--draws", "2")
            user.sotto("customize", "desk", "--input", "train.tsv", "--method", "head")
            label = user.sotto("predict", "desk", _QUESTION)
            check(_LABEL in label, f"the adapter said {label}")
            check("ready" in user.sotto("list"), "the adapter is not ready")
            (spent,) = re.findall(r"^spent +(.+?);", user.sotto("ledger"), re.MULTILINE)
    finally:
        cloud.stop()
    yield "tutorial: a classifier", f"{label.split()[0]}; {spent} spent"
