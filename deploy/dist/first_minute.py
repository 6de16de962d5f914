"""A new user's first minute, walked with wheels alone: install, try, talk, learn.

Packages of others come from the lists in `deploy.locks`, and are downloaded before the clock runs.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.live.testbed import Cloud
from deploy.dist.user import User
from tests.support.upstream_server import openai_server

PYTHONS: Final = ("3.11", "3.12", "3.13")
_NAME: Final = "Marguerite Oyelaran"
_TEXT: Final = f"{_NAME} has an appointment at the clinic on Monday."
_PRIVATE: Final = ("Marguerite", "Oyelaran")
_HIDDEN: Final = ("torch", "transformers", "sottovoce-cloud", "sottovoce-models")


def interpreters(given: Sequence[str]) -> Iterator[tuple[str, Path | None]]:
    """Return each interpreter's name and real path; None for one that does not run here.

    One that PATH lacks is looked for among the versions of pyenv.

    Args:
        given: names or paths; empty takes `PYTHONS`.
    """
    for name in given or tuple(f"python{version}" for version in PYTHONS):
        root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        found = sorted(root.glob(f"versions/*/bin/{name}"), reverse=True) if "/" not in name else []
        asked = map(_real_path, (name, *map(str, found)))
        yield name, next(filter(None, asked), None)


def _real_path(name: str) -> Path | None:
    """Of an interpreter; pyenv's own name for one that is not chosen does not run."""
    ask = [name, "-c", "import sys; print(sys.executable)"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return Path(done.stdout.strip()) if done.returncode == 0 else None


_PARTS: Final = ("protos", "core", "edge", "bundle_en", "bundle_en_encoder")


def walk(python: Path, wheels: Path, sources: Path) -> Iterator[tuple[str, str]]:
    """Walk the first minute with an interpreter; return each step with its output.

    Args:
        python: makes the environment.
        wheels: the folder of our wheels.
        sources: the checkout, which must not be used.

    Raises:
        AssertionError: a step failed.
    """
    with tempfile.TemporaryDirectory(prefix="sotto") as name:
        user = User(Path(name), python)
        others = user.download()
        found = ("--no-index", "--find-links", str(wheels), "--find-links", str(others))
        yield "downloaded", f"{len(list(others.iterdir()))} wheels of others"
        started, before = time.monotonic(), _processor()
        # As the README has it; the device's own packages come from files, and from no index.
        own = [str(file) for part in _PARTS for file in wheels.glob(f"sottovoce_{part}-*.whl")]
        user.pip("install", "--no-index", "--find-links", str(others), *own)
        installed = time.monotonic() - started
        released = user.sotto("privatize", _TEXT)
        assert not any(word in released for word in _PRIVATE), "privatize left a name"
        taken, work = time.monotonic() - started, _processor() - before
        spent = f"{taken:.0f} s ({installed:.0f} s of pip), {work:.0f} s of processor"
        yield "from wheels to a privatised text", spent
        yield "sotto privatize", released.strip()
        assert "balanced" in user.sotto("try", _TEXT), "try showed no level"
        yield "sotto try", "shows the levels"
        listed = user.run("python", "-m", "pip", "list", "--format=freeze")
        assert not any(f"{each}==" in listed for each in _HIDDEN), f"installed too much: {listed}"
        where = user.run("python", "-c", "import sottovoce.edge as e; print(e.__file__)")
        assert not Path(where.strip()).is_relative_to(sources), "the checkout was used"
        told = f"{len(listed.split())} packages, {user.megabytes():.0f} MB on disk"
        yield "nothing of the cloud, no torch", told
        yield from _conversations(user)
        yield from _learning(user, found)
        yield from app(user, sources)
        user.pip("uninstall", "-y", "sottovoce-bundle-en", "sottovoce-bundle-en-encoder")
        told = user.sotto("try", _TEXT, code=3)
        assert "pip install 'sottovoce-edge[en]'" in told, "no bundle, and no line to type"
        yield "without a bundle", told.strip().splitlines()[-1].strip()
        yield from classifier(user, sources)


def _processor() -> float:
    """Seconds of processor of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _conversations(user: User) -> Iterator[tuple[str, str]]:
    with openai_server() as server:
        options = ("--upstream", server.url, "--model", "a-model")
        answer = user.sotto("chat", *options, typed=f"{_TEXT}\n")
        assert _NAME in answer, "chat did not restore the name"
        yield "sotto chat", "the server saw other names, the answer has yours"
        seen = str([body for _, _, body in server.asked])
        assert len(server.asked) >= 1, "the server was not asked"
        assert not any(word in seen for word in _PRIVATE), "a name reached the server"


def _learning(user: User, found: Sequence[str]) -> Iterator[tuple[str, str]]:
    examples = [("The soup was cold and the waiter rude.", "bad"), ("A lovely evening.", "good")]
    rows = [f"{text} {number}\t{label}" for number in range(8) for text, label in examples]
    table = user.home / "examples.tsv"
    table.write_text("\n".join(("text\tlabel", *rows, "")), encoding="utf-8")
    user.pip("uninstall", "-y", "sottovoce-bundle-en-encoder")
    told = user.sotto("learn", "mood", "--input", str(table), code=3)
    assert "pip install sottovoce-bundle-en-encoder" in told, "no encoder, and no line to type"
    user.pip("install", *found, "sottovoce-edge[en-encoder]")
    user.sotto("learn", "mood", "--input", str(table))
    label = user.sotto("predict", "mood", "The soup was cold.")
    assert "bad" in label, f"the adapter said {label}"
    yield "sotto learn, sotto predict", "after pip install 'sottovoce-edge[en-encoder]'"


_PYTHON: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAID: Final = "Write to Dr Elena Marsh that order 68042 is late."
_QUESTION: Final = "the tap in the kitchen drips again and the sink is full"
_LABEL: Final = "plumbing"
_TENANT: Final = "alice"


def app(user: User, sources: Path) -> Iterator[tuple[str, str]]:
    """Walk `docs/tutorial_app.md`; return each step with its output.

    Args:
        user: has installed the device with a bundle.
        sources: the checkout, with the page.

    Raises:
        AssertionError: a step failed.
    """
    page = sources / "docs" / "tutorial_app.md"
    (program,) = _PYTHON.findall(page.read_text(encoding="utf-8"))
    assert _SAID in program, f"{page.name} says another text now"
    (user.home / "app.py").write_text(program, encoding="utf-8")
    with openai_server() as server:
        user.sotto("config", "set", "chat.upstream", server.url)
        with user.serving():
            answer = user.sotto("run", "--", "python", "app.py")
        assert _SAID in answer, f"the app got another text back: {answer}"
        seen = str([body for _, _, body in server.asked])
    assert server.asked, "the server was not asked"
    assert not any(each in seen for each in ("Elena", "Marsh", "68042")), "a name reached the server"
    yield "tutorial: an app", "got its names back; the server saw others"


def classifier(user: User, sources: Path) -> Iterator[tuple[str, str]]:
    """Walk `docs/tutorial_classifier.md`, and the doctor of `docs/tutorial_pi.md`.

    Args:
        user: has installed the device; a bundle comes from the cloud.
        sources: the checkout, with the cloud, its bundle and the examples.

    Raises:
        AssertionError: a step failed.
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
            assert _LABEL in label, f"the adapter said {label}"
            assert "ready" in user.sotto("list"), "the adapter is not ready"
            (spent,) = re.findall(r"^spent +(.+?);", user.sotto("ledger"), re.MULTILINE)
    finally:
        cloud.stop()
    yield "tutorial: a classifier", f"{label.split()[0]}; {spent} spent"
