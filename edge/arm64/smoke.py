"""Runs each part of the edge once on this machine and writes the results down.

The same script runs on this machine and on an ARM device, real or emulated, with the same seeds.
`compare.py` then compares the two results. By design, the daemon's noise cannot be seeded. So only
the daemon's results without noise are written down.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sottovoce.core.bundle.adapter import LocalAdapter, fit
from sottovoce.core.bundle.encoder import Additions, Encoder, Shape
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.core.privacy.mechanisms.spherical import PCT2T
from sottovoce.core.privacy.noise import draw
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.search import GRAPHS, ExactIndex, Graphs
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.tagger import OnnxTagger
from sottovoce.core.text.words import split
from sottovoce.edge.state.device_key import Seal
from sottovoce.v1 import edge_agent_pb2, edge_agent_pb2_grpc

TEXT: Final = """\
The nurse who looked after my father last winter called again on Monday, and she wasn't pleased.
He'd stopped taking the small white tablets in March, because (he says) they made his hands shake;
since then he has driven to Portsmouth twice, slept badly, and quarrelled with both of the
neighbours over a hedge. I don't want him to lose the flat. Could you find out which papers the
council needs, and whether a letter from Dr Ngozi Hathersage, dated 14 October, would be enough?
His number is 555-0142, the file is XR-20817, and you may write to me at hedge.trouble@example.org.
Meanwhile our own landlord has raised the rent by nine per cent, quietly, without repairing either
the boiler or the leaking gutter above the kitchen window. My sister thinks that we should refuse;
I think we should photograph everything first, keep every receipt, and ask a lawyer what a tenant
can still demand before the heating season starts. Nobody in this street has ever won such a case,
but the old teacher from number nine came close, and her patience was famous.
"""
SEEDS: Final = range(4)
GRAPH_WORDS: Final = 2_000
"""Words of the graph that is built on the spot."""
MESSAGES: Final = Path(__file__).parents[2] / "examples" / "helpdesk"
ASKED: Final = 100
"""Messages that a head is asked about, by what stands at their beginnings; it was trained on
others. An emulator takes seconds for each."""
FIRST_WORDS: Final = 20
"""Of a message."""

Part = Callable[[Bundle], Any]


def tagged(bundle: Bundle) -> dict[str, Any]:
    """Tags of `TEXT` and how sure the tagger is of each."""
    tagger = OnnxTagger.load(bundle.tagger_folder)
    tags = tagger.tag([word.text for word in split(TEXT, bundle.manifest.clitics)])
    names = [tagger.tagset[tag] for tag in tags.ids.tolist()]
    return {"tags": names, "confidence": tags.confidence.tolist()}


def vectors(bundle: Bundle) -> dict[str, Any]:
    """Rows of listed and unlisted words, and seeded noise."""
    cut = split(TEXT, bundle.manifest.clitics)
    found, ids = Vectors(bundle).lookup([word.text for word in cut])
    eta = bundle.manifest.level(PCT2T.name, "balanced").eta
    noise = draw(np.random.default_rng(0), 200, bundle.manifest.dimensions, eta)
    return {"ids": ids.tolist(), "words": found.tolist(), "noise": noise.tolist()}


def released(bundle: Bundle) -> list[str]:
    """Words of `TEXT` as released under every level, with several seeds."""
    privatizer = Privatizer.of(bundle)
    words: list[str] = []
    for level in bundle.manifest.calibration[PCT2T.name]:
        for seed in SEEDS:
            random = np.random.default_rng(seed)
            words += _words(privatizer.release(TEXT, Setting(level), random))
    return words


def released_exactly(bundle: Bundle) -> list[str]:
    """The same, every class searched exactly."""
    classes = {
        name: dataclasses.replace(stored, ef=0) for name, stored in bundle.manifest.classes.items()
    }
    manifest = dataclasses.replace(bundle.manifest, classes=classes)
    return released(Bundle(bundle.folder, manifest, bundle.id))


def searched(bundle: Bundle) -> dict[str, list[int]]:
    """Nearest words to noisy ones, by a graph built, kept and read here, and exactly."""
    rows = np.ascontiguousarray(bundle.space[:GRAPH_WORDS])
    eta = bundle.manifest.level(PCT2T.name, "balanced").eta
    noisy = rows + draw(np.random.default_rng(1), len(rows), rows.shape[1], eta)
    with tempfile.TemporaryDirectory() as folder:
        graphs = Graphs(Path(folder) / GRAPHS, Seal(bytes(32)).name)
        for _ in ("built", "read"):
            graph = graphs.index(rows, 100, bundle.space_id, "smoke")
    return {
        "graph": graph.nearest(noisy).tolist(),
        "exact": ExactIndex(rows).nearest(noisy).tolist(),
    }


def denoised(bundle: Bundle) -> list[list[float]] | None:
    """Embeddings of each sentence, alone and with seeded answers; None without a denoiser."""
    folder = bundle.folder / "denoisers"
    if not folder.is_dir():
        return None
    denoiser, random = Denoiser.load(folder, bundle), np.random.default_rng(2)
    found: list[list[float]] = []
    for sentence in TEXT.splitlines():
        ids = bundle.tokenizer.ids(sentence)
        answer = random.standard_normal(denoiser.width).astype(np.float32)
        answer /= np.linalg.norm(answer)
        found.append(denoiser.local(ids).tolist())
        found += [denoiser.denoise(ids, answer, eta).tolist() for eta in denoiser.eta_range]
    return found


def at_home(bundle: Bundle, head: Path) -> dict[str, Any] | None:
    """Labels by the head in that file, which is trained and put there where there is none; and
    states under seeded low-rank updates, prompt and prefix. None without an encoder."""
    if not bundle.encoder_folder.is_dir():
        return None
    encoder = Encoder.load(bundle)
    if not head.exists():
        none, (texts, labels) = Additions.none(encoder.shape), _messages("train")
        states = np.stack([encoder.pooled(text, none) for text in texts])
        head.write_bytes(fit(states, labels, encoder.shape).to_bytes())
    adapter, added = LocalAdapter.read(head), _additions(encoder.shape)
    return {
        "labels": [adapter.scores(encoder, t)[0][0] for t in _messages("test")[0][:ASKED]],
        "states": [encoder.pooled(line, added).tolist() for line in TEXT.splitlines()],
    }


def asked(bundle: Bundle, python: str) -> dict[str, Any]:
    """Return a daemon's answers over its socket, without noise, and its exit status."""
    with _daemon(bundle, python) as (process, address):
        with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
            checks = health_pb2_grpc.HealthStub(channel)
            health = checks.Check(health_pb2.HealthCheckRequest(), timeout=60)
            agent = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
            request = edge_agent_pb2.PrivatizeRequest(text=TEXT, words=True)
            answers = [agent.Privatize(request, timeout=120) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    first = answers[0]
    return {
        "tags": [word.tag for word in first.words],
        "protected": [word.protected for word in first.words],
        "facts": {
            "health": health_pb2.HealthCheckResponse.ServingStatus.Name(health.status),
            "the bundle's id": first.bundle_id == bundle.id,
            "same bytes for the same text": answers[0].text == answers[1].text,
            "white space and marks kept": _gaps(TEXT, [(w.start, w.end) for w in first.words])
            == _gaps(first.text, [(w.released_start, w.released_end) for w in first.words]),
            "some words replaced": any(word.replaced for word in first.words),
            "exit status": process.returncode,
        },
    }


@contextmanager
def _daemon(bundle: Bundle, python: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a daemon in a separate process; yield the process and its address."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "data").mkdir()
        (home / "data" / "current").symlink_to(bundle.folder.resolve())
        inherited = {name: text for name, text in os.environ.items() if name[:6] != "SOTTO_"}
        environment = inherited | {
            "HOME": folder,
            "SOTTO_BUNDLE_PATH": str(home / "data"),
            "SOTTO_AGENT_STATE": str(home / "state"),
            "SOTTO_AGENT_LISTEN": f"unix:{home / 'agent.sock'}",
        }
        start = [python, "-c", "from sottovoce.edge.cli import main; main(['serve', '--json'])"]
        with subprocess.Popen(start, env=environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield process, json.loads(process.stdout.readline())["serving"]
            finally:
                process.kill()


def _messages(part: str) -> tuple[list[str], list[str]]:
    """Return the first words of the example's messages, and the messages' labels."""
    lines = (MESSAGES / f"{part}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    pairs = [line.split("\t") for line in lines]
    texts = [" ".join(text.split()[:FIRST_WORDS]) for text, _ in pairs]
    return texts, [label for _, label in pairs]


def _additions(shape: Shape) -> Additions:
    """Return random additions, about as large as trained additions."""
    random = np.random.default_rng(3)
    widths = {"prompt": shape.width, "prefix": shape.prefix, "lora": shape.lora}
    return Additions(
        **{
            name: (0.05 * random.standard_normal((8, width))).astype(np.float32)
            for name, width in widths.items()
        }
    )


def _words(release: Release) -> list[str]:
    return [release.text[word.released_start : word.released_end] for word in release.words]


def _gaps(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """Return the parts of `text` before, between and after `spans`."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    pairs = zip([0, *ends], [*starts, len(text)], strict=True)
    return [text[end:start] for end, start in pairs]


def main() -> None:
    """Writes one JSON object to `--out`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument(
        "--python", default=sys.executable, help="what starts the daemon, if not this Python itself"
    )
    parser.add_argument(
        "--head",
        type=Path,
        default=Path("build/arm64/head.safetensors"),
        help="of both machines: trained by the first one",
    )
    arguments = parser.parse_args()
    arguments.head.parent.mkdir(parents=True, exist_ok=True)
    bundle = Bundle.open(arguments.bundle)
    parts: dict[str, Part] = {
        "tagger": tagged,
        "vectors": vectors,
        "released": released,
        "released exactly": released_exactly,
        "search": searched,
        "denoiser": denoised,
        "at home": lambda opened: at_home(opened, arguments.head),
        "daemon": lambda opened: asked(opened, arguments.python),
    }
    found: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for name, part in parts.items():
        started = time.monotonic()
        found[name] = part(bundle)
        seconds[name] = round(time.monotonic() - started, 2)
        print(f"{platform.machine()}: {name} {seconds[name]:.1f} s", file=sys.stderr)
    about = {"machine": platform.machine(), "bundle": bundle.id, "seconds": seconds}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(about | found), encoding="utf-8")


if __name__ == "__main__":
    main()
