"""The cost of one process with SQLite and files, beside the same at another commit.

Support for many machines must not slow a single machine. Both clouds run at once. Each serves a
device of its own checkout, so the two versions need not be compatible. Rounds alternate, and a
ratio compares two neighbouring rounds. Processor time is compared, because other work on the
machine stretches it far less than wall-clock time.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np

from bench import console
from bench.console import Figures, Table, span, table
from bench.live.testbed import Agent, Role, command, free_address
from bench.resampling import drawn, interval
from sottovoce.v1 import edge_agent_pb2

__all__ = ["compared", "measure", "processor", "tables"]

_TEXTS = Path("examples/helpdesk")
_CALLS, _CALLERS = 400, 8
"""Calls of a round, and the number of calls open at once."""
_EXAMPLES = 64
"""Examples of a job, which has three epochs."""
_THREADS = ("--threads=1", "--training-threads=1")
"""One thread each, because threads that spin while they wait would count as work."""
_TICKS = os.sysconf("SC_CLK_TCK")


def processor(session: int) -> float:
    """Return the processor seconds of a session's processes and of their ended children."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()  # from the third on
        except (FileNotFoundError, ProcessLookupError):  # it just ended
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


@dataclass
class _Side:
    """A cloud and a device of one checkout; ``service`` is the wire name of the device's."""

    cloud: Role
    device: Agent
    service: str

    def costs(self, work: Callable[[_Side], int]) -> tuple[float, float]:
        """Return the cloud's processor time and the wall-clock time, in milliseconds per item."""
        assert self.cloud.process is not None
        session = self.cloud.process.pid  # which it leads
        spent, began = processor(session), time.monotonic()
        done = work(self)
        waited = time.monotonic() - began
        return 1000 * (processor(session) - spent) / done, 1000 * waited / done


def measure(folder: Path, bundle: Path, older: Path, *, rounds: int, jobs: int) -> Figures:
    """Measure the calls and jobs of both versions.

    Args:
        folder: an empty folder.
        bundle: the bundle that both serve.
        older: a checkout of another commit.
        rounds: rounds of calls, on each side.
        jobs: jobs on each side.

    Raises:
        SystemExit: the checkout is missing.
    """
    if not (older / "cloud" / "sottovoce").is_dir():
        raise SystemExit(f"no checkout: {older}; make one by `git worktree add {older} COMMIT`")
    texts = [line.split("\t")[0] for line in (_TEXTS / "test.tsv").read_text().splitlines()[1:]]
    with ExitStack() as stack:
        sides = {
            name: _started(stack, folder / name, bundle, checkout)
            for name, checkout in (("before", older), ("now", Path.cwd()))
        }
        numbers = itertools.count()
        works: dict[str, tuple[int, Callable[[_Side], int]]] = {
            "a call": (rounds, lambda side: _ask(side, texts)),
            "a job": (jobs, lambda side: _customise(side, f"desk{next(numbers)}")),
        }
        found: Figures = {"what": {}, "calls_a_round": _CALLS}
        for side in sides.values():  # the adapter that is asked; and both are warm
            _customise(side, "desk")
            _ask(side, texts)
        with console.progress() as bar:
            for what, (number, work) in works.items():
                spent = [
                    {name: sides[name].costs(work) for name in _order(turn)}
                    for turn in bar.track(range(number), description=what)
                ]
                found["what"][what] = compared(spent)
    return found


def _order(turn: int) -> Sequence[str]:
    return ("before", "now") if turn % 2 else ("now", "before")


def _started(stack: ExitStack, folder: Path, bundle: Path, checkout: Path) -> _Side:
    folder.mkdir(parents=True)
    parts = (checkout.resolve() / part for part in ("protos", "core", "edge", "cloud", "models"))
    env = {"PYTHONPATH": os.pathsep.join(map(str, parts))}
    address, state, token = free_address(), folder / "cloud", folder / "token"
    serve = ("serve", "--listen", address, "--state", str(state), *_THREADS)
    log = folder / "cloud.log"
    cloud = Role(address, log, None, (*serve, "--bundle", str(bundle.resolve())), env)
    stack.callback(cloud.kill)
    cloud.start()
    enroll = [command("sotto-cloud"), "enroll", "bench", "--token-file", str(token)]
    subprocess.run(
        [*enroll, "--state", str(state)],
        env={**os.environ, **env},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    device = Agent.at(folder, cloud=address, tenant="bench", token=token)
    device.env.update(env)
    device.run("pull", address)
    stack.callback(device.kill)
    device.start()
    wire = (checkout / "protos/sottovoce/v1/edge_agent.proto").read_text("utf-8")
    (service,) = re.findall(r"^service (\w+)", wire, re.MULTILINE)
    return _Side(cloud, device, f"sottovoce.v1.{service}")


def _ask(side: _Side, texts: Sequence[str]) -> int:
    with (
        grpc.insecure_channel(side.device.address) as channel,
        ThreadPoolExecutor(_CALLERS) as callers,
    ):
        predict: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/{side.service}/Predict"
        )

        def ask(number: int) -> None:
            text = texts[number % len(texts)]
            request = edge_agent_pb2.PredictRequest(text=text, adapter="desk")
            predict(request.SerializeToString(), timeout=60)

        return len(list(callers.map(ask, range(_CALLS))))


def _customise(side: _Side, name: str) -> int:
    lines = (_TEXTS / "train.tsv").read_text("utf-8").splitlines(keepends=True)
    device = side.device
    examples = device.log.with_name("examples.tsv")
    examples.write_text("".join(lines[: _EXAMPLES + 1]), "utf-8")
    device.run("customize", name, "--input", str(examples), "--epochs", "3", "--json")
    return 1


def compared(spent: Sequence[dict[str, tuple[float, float]]]) -> Figures:
    """Medians, and the median of the rounds' own ratios with its interval.

    Args:
        spent: of each round, what `_Side.costs` gave for "before" and "now".
    """
    before, now = (np.array([turn[name] for turn in spent]) for name in ("before", "now"))
    ratios = now[:, 0] / before[:, 0]
    again = np.array([np.median(np.repeat(ratios, often)) for often in drawn(len(ratios))])
    middles = np.median(before, axis=0).tolist(), np.median(now, axis=0).tolist()
    processor, clock = (
        dict(zip(("before", "now"), both, strict=True)) for both in zip(*middles, strict=True)
    )
    return {
        "rounds": len(spent),
        "processor_ms": processor,
        "clock_ms": clock,
        "ratio": float(np.median(ratios)),
        "interval": interval(again),
    }


def tables(found: Figures) -> list[Table]:
    """Return a table with a row for calls and a row for jobs."""
    return [
        table(
            "sotto-cloud serve with SQLite: processor time, now and before",
            ["what"],
            ["rounds", "before, ms", "now, ms", "now / before", "95 %", "clock: before, ms", "now"],
            [
                [
                    what,
                    each["rounds"],
                    f"{each['processor_ms']['before']:.2f}",
                    f"{each['processor_ms']['now']:.2f}",
                    f"{each['ratio']:.3f}",
                    span(each["interval"]),
                    f"{each['clock_ms']['before']:.1f}",
                    f"{each['clock_ms']['now']:.1f}",
                ]
                for what, each in found["what"].items()
            ],
        )
    ]
