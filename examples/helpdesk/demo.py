"""`make demo`: a device learns to sort private messages through a real cloud.

Both daemons run as processes of their own, with a recorder between them; every step is
the command an owner or a provider would type. Only two things happen outside the product:
a control that trains on the clear text inside the cloud's code, to see what privacy cost,
and an attacker, to see what it bought. The last line printed is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.live.testbed import Agent, Cloud, command
from bench.live.wiretap import Wiretap
from examples.helpdesk import attack, report
from examples.helpdesk.control import read_table

HERE = Path(__file__).parent
SHORT = 20  # words; to show what privacy costs on one-liners
console = Console(stderr=True)


@dataclass
class Clock:
    """Seconds by stage, in order."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announces a stage and keeps its time."""
        console.rule(f"[bold]{name}", align="left")
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 1)


def accuracy(predicted: list[str], truth: list[str]) -> float:
    """Share of equal labels."""
    return round(sum(p == t for p, t in zip(predicted, truth, strict=True)) / len(truth), 4)


def say(*arguments: str) -> None:
    """Shows the command that is about to run."""
    console.print("[dim]$ " + " ".join(arguments))


def owner(agent: Agent, *arguments: str, stdin: bytes | None = None) -> list[dict[str, Any]]:
    """Runs a `sotto` command; the JSON objects it prints."""
    say("sotto", *arguments)
    out = agent.run(*arguments, "--json", stdin=stdin)
    return [json.loads(line) for line in out.splitlines()]


def said(tap: Wiretap) -> int:
    """Header fields and messages that have left: the pings of an idle connection are neither."""
    return sum(len(part) for each in tap.connections if each.sent for part in each.requests())


def customize(agent: Agent, name: str, table: Path, level: str, *options: str) -> dict[str, Any]:
    """Trains one adapter and returns the finished customisation."""
    arguments = ["customize", name, "--input", str(table), "--level", level, *options]
    done = owner(agent, *arguments)[-1]
    console.print(
        f"adapter [bold]{name}[/]: held-out accuracy {done['held_out_accuracy']:.3f}, "
        f"{done['examples']} examples"
    )
    return done


def run(level: str, folder: Path, bundle: Path) -> dict[str, Any]:
    """The whole story; returns the figures."""
    train, test = HERE / "train.tsv", HERE / "test.tsv"
    train_texts = [example.text for example in read_table(train)]
    texts = [example.text for example in read_table(test)]
    truth = [example.label for example in read_table(test)]
    asked = folder / "ask.txt"
    asked.write_text("\n".join(texts) + "\n", encoding="utf-8")
    beginnings = folder / "ask-beginnings.txt"
    cuts = [" ".join(text.split()[:SHORT]) for text in texts]
    beginnings.write_text("\n".join(cuts) + "\n", encoding="utf-8")
    clock = Clock()

    with clock.stage("provider builds the bundle"):
        build = [command("sotto-cloud"), "build-bundle", "--out", str(bundle), "--encoder"]
        say("sotto-cloud", *build[1:])
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)

    cloud = Cloud.at(folder, bundle, "--hand-out-adapters", "helpdesk")
    with clock.stage("both daemons start"):
        say("sotto-cloud", "serve", "--listen", cloud.address, *cloud.options)
        cloud.start()
        token = cloud.enroll("helpdesk")
    try:
        with Wiretap(cloud.address) as tap:
            agent = Agent.at(folder, cloud=tap.address, tenant="helpdesk", token=token)
            say("sotto", "serve")
            agent.start()
            try:
                with clock.stage("device pulls the bundle"):
                    owner(agent, "pull", tap.address, "--encoder")
                pulled = tap.bytes_received
                with clock.stage("device customises, with reconstruction"):
                    customize(agent, "desk", train, level, "--reconstruction")
                with_head = tap.bytes_sent
                with clock.stage("device customises, without reconstruction"):
                    customize(agent, "desk-plain", train, level, "--no-reconstruction")
                trained = tap.bytes_sent
                with clock.stage("device asks about messages it has never seen"):
                    answers = owner(agent, "predict", "desk", "--input", str(asked))
                    plain = owner(agent, "predict", "desk-plain", "--input", str(asked))
                    cut = owner(agent, "predict", "desk", "--input", str(beginnings))
                sent = tap.bytes_sent
                with clock.stage("device fetches the adapter"):
                    owner(agent, "fetch", "desk")
                fetched, before = tap.bytes_sent, said(tap)
                with clock.stage("device answers at home, from the text as typed"):
                    home = owner(agent, "predict", "desk", "--input", str(asked))
                    home_cut = owner(agent, "predict", "desk", "--input", str(beginnings))
                left = said(tap) - before
                if left or {a["answered"] for a in home + home_cut} != {"device"}:
                    raise SystemExit("something left while the device was to answer alone")
                status = owner(agent, "status")[-1]
            finally:
                agent.stop()
    finally:
        cloud.stop()

    with clock.stage("control: the same training on the clear text"):
        control = [sys.executable, "-m", "examples.helpdesk.control"]
        out = subprocess.run(control, check=True, stdout=subprocess.PIPE).stdout
        clear = json.loads(out.splitlines()[-1])["predicted"]
    with clock.stage("attack: what a MAP attacker recovers"):
        recovered = attack.run(bundle, level, texts)

    return {
        "level": level,
        "mechanism": status["default_mechanism"],
        "eta": recovered.eta,
        "messages": {"train": len(train_texts), "test": len(texts)},
        "accuracy": {
            "private": accuracy([a["label"] for a in answers], truth),
            "private_without_reconstruction": accuracy([a["label"] for a in plain], truth),
            f"private_first_{SHORT}_words": accuracy([a["label"] for a in cut], truth),
            "at_home": accuracy([a["label"] for a in home], truth),
            f"at_home_first_{SHORT}_words": accuracy([a["label"] for a in home_cut], truth),
            "clear": accuracy(clear, truth),
            "guessing": round(1 / len(set(truth)), 4),
        },
        "attack": recovered.figures(),
        "bytes": {
            "text": sum(len(t.encode()) for t in [*train_texts, *texts]),
            "sent_customize_with_reconstruction": with_head,
            "sent_customize_without_reconstruction": trained - with_head,
            "sent_predict": sent - trained,
            "sent_fetch": fetched - sent,
            "said_predict_at_home": left,
            "received_bundle": pulled,
        },
        "ledger": status["ledger"],
        "seconds": clock.seconds,
        "examples": [
            {"typed": text, "left_the_device": a["released_text"], "answer": a["label"], "truth": t}
            for text, a, t in zip(texts, answers, truth, strict=True)
        ][:12],
    }


def main() -> None:
    """Runs the demo in build/demo and prints tables, a picture's path and the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--level", default="balanced", help="default: %(default)s")
    parser.add_argument("--folder", type=Path, default=Path("build/demo"))
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that both daemons are stopped
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    figures = run(arguments.level, arguments.folder.resolve(), arguments.bundle.resolve())
    picture = arguments.folder / "helpdesk.png"
    report.show(console, figures)
    report.draw(figures, picture)
    console.print(f"picture: {picture}; logs: {arguments.folder}")
    console.print(
        "now try:  echo 'Call Dr Elena Marsh on 555-0142' | .venv/bin/sotto privatize --json"
    )
    figures["picture"] = str(picture)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
