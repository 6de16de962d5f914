"""A machine that lacks a resource: the error names the remedy, and the state stays intact.

Each trial runs a command of the device in a process with a limit on file size, open files or
memory, or without write permission. The same text follows without the limit. The first answer must
come again, and each text must be charged once.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from soak.campaign.daemons import PROGRAM
from soak.campaign.tally import Tally
from sottovoce.edge.config import Config
from tests.support.agent import configured, opened
from tests.support.paths import BUNDLE
from tests.support.processes import environment

_SECONDS: Final = 300.0
_MOUNTS: Final = ("unshare", "-m")
_BOUND: Final = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
_UNSAID: Final = "memory"
"""Where too little leaves a program no room to say so; Python itself, with 22 MB, may stand still
while it imports its own modules."""
_STANDS_STILL: Final = 60.0


def _file_size(chance: random.Random, _: Path) -> list[str]:
    """Limit the file size, like a disk that fills at the first write or a later one."""
    most = chance.choice((0, 1, 4_096, 20_000, 40_000, 70_000, chance.randrange(200_000)))
    return ["prlimit", f"--fsize={most}"]


def _files(chance: random.Random, _: Path) -> list[str]:
    return ["prlimit", f"--nofile={chance.choice((chance.randint(5, 20), chance.randint(20, 90)))}"]


def _memory(chance: random.Random, _: Path) -> list[str]:
    return ["prlimit", f"--as={chance.randint(20, 200) << 20}"]


def _read_only(_: random.Random, state: Path) -> list[str]:
    return [*_MOUNTS, "sh", "-c", _BOUND, str(state)]


KINDS: Final = {
    "full disk": _file_size,
    "descriptors": _files,
    "memory": _memory,
    "read-only": _read_only,
}
"""Command prefixes that impose a limit, given a folder that the command writes to."""


def machine(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    """Privatises a text a trial in a process that lacks something, and again in one that does not.

    Args:
        folder: an empty one for the device.
    """
    config = configured(folder, bundle=BUNDLE)
    kinds = [*KINDS]
    if subprocess.run([*_MOUNTS, "true"], check=False, capture_output=True).returncode:
        kinds.remove("read-only")  # which takes a mount of one's own
    charged = 0
    with opened(config, None):
        pass
    for trial in trials:
        chance = random.Random(f"{seed} {trial}")
        kind = kinds[trial % len(kinds)]
        text = f"Anna was in the garden of house {trial}"
        limited = KINDS[kind](chance, config.agent.state)
        first = _command(config, limited, text, _STANDS_STILL if kind == _UNSAID else _SECONDS)
        with opened(config, None) as device:
            again = device.releases.release(text, device.default).text
            spent = device.ledger.spending().releases
        seen = f"{kind}: exit {first.returncode}, {first.stderr[-300:]}"
        if first.returncode == 0 and json.loads(first.stdout)["text"] != again:
            tally.fault("lost", trial, f"{kind}: answered otherwise afterwards")
        elif spent - charged != 1:
            tally.fault("lost", trial, f"{kind}: {spent - charged} charged")
        elif first.returncode != 0 and kind != _UNSAID and not _says_why(first.stderr):
            tally.fault("unexplained", trial, seen)
        elif text in first.stderr:
            tally.fault("leaked", trial, seen)
        else:
            stood = "stood still" if first.returncode == -signal.SIGKILL else "refused"
            tally.ended(f"{kind}: {'answered' if first.returncode == 0 else stood}")
        charged = spent


def _command(
    config: Config, limited: list[str], text: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run ``sotto privatize`` under a limit; kill it at a timeout."""
    command = [sys.executable, "-c", PROGRAM.format("edge"), "privatize", text, "--json"]
    environ = {
        "HOME": str(config.agent.state.parents[3]),
        "SOTTO_AGENT_LISTEN": config.agent.listen,
        "SOTTO_AGENT_STATE": str(config.agent.state),
        "SOTTO_BUNDLE_PATH": str(config.bundle.path),
    }
    whole = [*limited, *command]
    try:
        return subprocess.run(
            whole,
            env=environment() | environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        told = error.stderr or b""  # bytes, whatever was asked for
        said = told if isinstance(told, str) else told.decode(errors="replace")
        return subprocess.CompletedProcess(whole, -signal.SIGKILL, "", said)


def _says_why(stderr: str) -> bool:
    last = stderr.strip().rpartition("\n")[2]
    try:
        return bool(json.loads(last)["error"]["fix"]) and "Traceback" not in stderr
    except (ValueError, KeyError):
        return False
