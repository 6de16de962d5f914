"""How much memory does the daemon hold, and how soon is it ready?

It starts real `sotto serve` processes over the bundle and reads /proc. It prints the peak (VmHWM)
after texts of 10 to 50,000 words, the resident parts by file, and the time from the start of the
process to health SERVING.

One daemon only releases texts. Two daemons also embed texts, before or after, which loads the
denoiser. Over a bundle with an encoder, a further daemon learns an adapter and answers with it; the
time to its first answer counts. These texts use the policy for training. A further daemon for each
finder uses the policy for conversations.

    python -m bench.edge_memory
"""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import grpc

from bench import console
from bench.console import Figures, Table, table
from bench.data import document
from bench.live.testbed import Agent
from sottovoce.core.bundle.folder import Bundle
from sottovoce.edge.measure import resident, wait_until_settled
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc

_Call = agent.PrivatizeRequest | agent.EmbedRequest | agent.PredictRequest
_TEXTS: Final[dict[str, _Call]] = {
    f"{size:,} words": agent.PrivatizeRequest(text=document(size))
    for size in (10, 100, 1_000, 10_000, 50_000)
}
_CONVERSATIONS: Final[dict[str, _Call]] = {
    f"{size:,} words": agent.PrivatizeRequest(
        text=document(size), privacy=agent.PrivacyOptions(policy="personal")
    )
    for size in (10, 100, 1_000, 10_000, 50_000)
}
_EMBEDDINGS: Final[dict[str, _Call]] = {
    "denoiser loaded": agent.EmbedRequest(text=document(10), local=True),
    "longest embedded": agent.EmbedRequest(text=document(400), local=True),
}
_EXAMPLES: Final = "text\tlabel\n" + "".join(
    f"{document(size)}\t{label}\n" for size in range(5, 15) for label in ("long", "short")
)
_ANSWERS: Final[dict[str, _Call]] = {
    f"{title} at home": agent.PredictRequest(
        text=document(size), adapter="mail", where=agent.WHERE_DEVICE
    )
    for title, size in {"first answer": 18, "longest": 1_000}.items()
}
_MAPPING: Final = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S{4} \S+ \S+ \d+\s*(.*)")


def started(folder: Path, bundle: Path, **settings: str) -> tuple[Agent, float]:
    """Start a daemon over ``bundle``, and return it with the seconds to SERVING.

    ``settings`` are environment variables.
    """
    bundles = folder / "bundles"
    bundles.mkdir(parents=True)
    (bundles / "current").symlink_to(bundle.resolve())
    daemon = Agent.at(folder)
    daemon.env |= {"SOTTO_BUNDLE_PATH": str(bundles), **settings}
    begin = time.perf_counter()
    daemon.start()
    return daemon, time.perf_counter() - begin


def startup(bundle: Path, repeats: int) -> list[float]:
    """Return the seconds to SERVING, ``repeats`` times."""
    found = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            daemon, seconds = started(Path(folder), bundle)
            daemon.stop()
            found.append(seconds)
    return found


def serving(bundle: Bundle, calls: Mapping[str, _Call], **settings: str) -> Figures:
    """Return the peak memory of one daemon over ``bundle``, after each of the named ``calls``."""
    with tempfile.TemporaryDirectory() as folder:
        daemon, _ = started(Path(folder), bundle.folder, **settings)
        return _after(daemon, calls)


def at_home(bundle: Bundle, calls: Mapping[str, _Call], repeats: int) -> Figures:
    """The same for a daemon that has learnt an adapter, and seconds from the start of the process
    to its first answer, ``repeats`` times."""
    with tempfile.TemporaryDirectory() as folder:
        daemon, _ = started(Path(folder), bundle.folder)
        daemon.stop()
        examples = Path(folder) / "examples.tsv"
        examples.write_text(_EXAMPLES, encoding="utf-8")
        daemon.run("learn", "mail", "--input", str(examples))
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter()
            daemon.start()
            with grpc.insecure_channel(daemon.address) as channel:
                stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
                stub.Predict(next(iter(_ANSWERS.values())))
            seconds.append(time.perf_counter() - begin)
            daemon.stop()
        daemon.start()
        return {**_after(daemon, calls), "first_answer_s": seconds}


def _after(daemon: Agent, calls: Mapping[str, _Call]) -> Figures:
    """Return the daemon's memory after each of ``calls``, and end it."""
    assert daemon.process is not None
    pid = daemon.process.pid
    try:
        wait_until_settled(pid)
        steps = [step("warm", pid)]
        options = [("grpc.max_receive_message_length", 64 << 20)]
        with grpc.insecure_channel(daemon.address, options=options) as channel:
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
            for name, call in calls.items():
                method = type(call).__name__.removesuffix("Request")
                getattr(stub, method)(call)
                steps.append(step(name, pid))
        return {"steps": steps, "mappings": mappings(pid)}
    finally:
        daemon.stop()


def step(name: str, pid: int) -> Figures:
    """Return a process's memory figures."""
    return {"after": name, **resident(pid)}


def mappings(pid: int) -> dict[str, float]:
    """Resident MB by mapped file; "private" is heap and the like."""
    found: Counter[str] = Counter()
    name = ""
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        if match := _MAPPING.fullmatch(line):
            path = match[1]
            name = Path(path).name if path.startswith("/") else "private"
        elif line.startswith("Rss:"):
            found[name] += int(line.split()[1])
    return {name: round(kib * 1024 / 1e6, 1) for name, kib in found.most_common(16)}


def show(figures: Figures) -> Iterator[Table | str]:
    """Return the tables."""
    home = {"answers at home, and all else": figures["at_home"]} if "at_home" in figures else {}
    for name, found in (figures["daemons"] | home).items():
        keys = ("peak", "now", "pss", "private", "files")
        cells = ((row["after"], *(f"{row[key]:.1f}" for key in keys)) for row in found["steps"])
        yield table(f"sotto serve, {name}, MB", ("after",), keys, cells)
        files = found["mappings"].items()
        yield table("resident at the end", ("file",), ("MB",), files)
    growth = ", ".join(f"{mb:+.1f} MB ({name})" for name, mb in figures["growth_mb"].items())
    if "first_answer_s" in figures:
        yield (
            f"with answers at home: peak {figures['peak_at_home_mb']:.1f} MB, "
            f"first answer {figures['first_answer_s']:.2f} s after the start"
        )
    yield (
        f"peak {figures['peak_mb']:.1f} MB; from 10 to 50,000 words {growth};"
        f" ready in {figures['ready_s']:.2f} s"
    )


def main() -> None:
    """Start the daemons, and print the tables."""
    parser = console.parser("edge_memory", __doc__)
    parser.add_argument("--repeats", type=int, default=7, help="number of timed starts")
    arguments = parser.parse_args()
    with console.STEPS.status("starting daemons"):
        ready = startup(arguments.bundle, arguments.repeats)
        bundle = Bundle.open(arguments.bundle)
        daemons = {
            "text alone": serving(bundle, _TEXTS),
            "conversations": serving(bundle, _CONVERSATIONS, SOTTO_PRIVACY_FINDER="small"),
        }
        if bundle.has_full_finder:
            daemons["conversations, full"] = serving(bundle, _CONVERSATIONS)
        if bundle.manifest.embed:
            daemons["text after embeddings"] = serving(bundle, {**_EMBEDDINGS, **_TEXTS})
            daemons["embeddings after text"] = serving(bundle, {**_TEXTS, **_EMBEDDINGS})
    home: Figures = {}
    if bundle.encoder_folder.is_dir():
        with console.STEPS.status("answering at home"):
            found = at_home(bundle, {**_ANSWERS, **_EMBEDDINGS, **_TEXTS}, arguments.repeats)
        home = {
            "first_answer_s": round(statistics.median(found["first_answer_s"]), 3),
            "peak_at_home_mb": max(row["peak"] for row in found["steps"]),
            "at_home": found,
        }
    peaks = {
        name: {row["after"]: row["peak"] for row in found["steps"]}
        for name, found in daemons.items()
    }
    figures = {
        "bundle": bundle.id,
        "peak_mb": max(max(peak.values()) for peak in peaks.values()),
        "growth_mb": {
            name: round(peak["50,000 words"] - peak["10 words"], 1) for name, peak in peaks.items()
        },
        "ready_s": round(statistics.median(ready), 3),
        "daemons": daemons,
        **home,
    }
    console.publish(arguments, figures, *show(figures))


if __name__ == "__main__":
    main()
