"""``sotto bench``."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import Unavailable
from sottovoce.core.platform.console import (
    Command,
    json_option,
    print_json,
    print_table,
    print_text,
    progress_bar,
)
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.setting import Setting
from sottovoce.edge import measure
from sottovoce.edge.cli.client import connect
from sottovoce.edge.cli.common import load_config, privacy_options
from sottovoce.edge.config import Config
from sottovoce.edge.tasks.engine import open_current, open_tagger
from sottovoce.edge.tasks.privatize import resolve
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]

SIZES = (1, 10, 100, 1_000, 10_000)
_SERVE = "from sottovoce.edge.cli import main; main()"


@click.command("bench", cls=Command)
@privacy_options
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=SIZES[-1],
    show_default=True,
    help="Words of the longest text.",
)
@click.option("--repeats", type=click.IntRange(min=1), default=11, show_default=True)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    level: str,
    mechanism: str,
    policy: str,
    most: int,
    repeats: int,
    as_json: bool,
) -> None:
    """Measure this device: time from text to text, memory, and how soon an agent is ready.

    Texts are made of the bundle's own words. Times are medians of the clock on the wall, so that
    other work on the device shows. Memory is that of a second agent, started for the purpose over
    the same bundle and a state of its own; nothing is charged and no cloud is contacted.
    """
    config = load_config(ctx)
    bundle = open_current(config.bundle)
    default = Setting(config.privacy.level, config.privacy.mechanism, config.privacy.policy)
    setting = resolve(
        agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy), default
    )
    watch = measure.Stopwatch()
    privatizer = Privatizer.of(
        bundle,
        tagger=partial(open_tagger, bundle, config.tagger),
        unsure_below=config.privacy.unsure_below,
        accept_unchecked=config.bundle.accept_unchecked,
        stage=watch.stage,
    )
    eta = privatizer.mechanism(setting).eta
    sizes = [size for size in SIZES if size < most] + [most]
    documents: list[dict[str, Any]] = []
    with progress_bar(enabled=not as_json) as progress:
        task = progress.add_task("measuring", total=len(sizes) + 1, note="")
        for size in sizes:
            text = measure.document(bundle, size)
            total, stages = measure.latency(privatizer, watch, text, setting, repeats)
            documents.append(
                {
                    "words": size,
                    "ms": round(total, 3),
                    "us_per_word": round(total / size * 1e3, 1),
                    "stages_ms": {name: round(taken, 3) for name, taken in stages.items()},
                }
            )
            progress.advance(task)
        daemon = _daemon(config, ctx.obj, bundle, sizes[-1])
        progress.advance(task)
    figures = {
        "device": _device(),
        "bundle_id": bundle.id,
        "mechanism": setting.mechanism,
        "level": setting.level,
        "eta": eta,
        "documents": documents,
        "daemon": daemon,
    }
    if as_json:
        print_json(figures)
    else:
        _show(figures)


def _device() -> dict[str, Any]:
    return {
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "memory_mb": _memory_mb(),
    }


def _memory_mb() -> int | None:
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    if not set(names) <= set(os.sysconf_names):
        return None
    page, pages = map(os.sysconf, names)
    return page * pages >> 20


def _daemon(
    config: Config, file: Path | None, bundle: Bundle, most: int
) -> dict[str, float | None]:
    """Measure a new agent: its time to start, and its memory over a long text."""
    with tempfile.TemporaryDirectory() as folder:
        listen = f"unix:{folder}/agent.sock"
        environment = {
            **os.environ,
            "SOTTO_AGENT_LISTEN": listen,
            "SOTTO_AGENT_APPS": "false",
            "SOTTO_AGENT_GROUP": "",
            "SOTTO_AGENT_STATE": str(Path(folder) / "state"),
            "SOTTO_BUNDLE_PATH": str(config.bundle.path.absolute()),
        }
        program = [sys.executable, "-c", _SERVE, *(("--config", str(file)) if file else ())]
        begin = time.perf_counter()
        with subprocess.Popen(
            [*program, "serve", "--json"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                assert process.stdout is not None
                if not process.stdout.readline():
                    raise Unavailable("an agent did not start", fix="run `sotto doctor`")
                ready = time.perf_counter() - begin
                measure.wait_until_settled(process.pid)
                with connect(listen) as client:
                    client.agent.Privatize(
                        agent.PrivatizeRequest(text=measure.document(bundle, 10))
                    )
                    short = measure.resident(process.pid).get("peak")
                    client.agent.Privatize(
                        agent.PrivatizeRequest(text=measure.document(bundle, most))
                    )
                    peak = measure.resident(process.pid).get("peak")
            finally:
                process.terminate()
    growth = None if peak is None or short is None else round(peak - short, 1)
    return {"ready_s": round(ready, 3), "peak_mb": peak, "growth_mb": growth}


def _show(figures: dict[str, Any]) -> None:
    device = figures["device"]
    print_text(
        f"{device['machine']}, {device['cores']} cores, {device['system']}, "
        f"Python {device['python']}; {figures['mechanism']}, {figures['level']}"
    )
    stages = list(figures["documents"][0]["stages_ms"])
    print_table(
        ("words", "time", "us/word", *(f"{stage} ms" for stage in stages)),
        [
            (
                f"{row['words']:,}",
                f"{row['ms']:,.2f} ms",
                f"{row['us_per_word']:,.1f}",
                *(f"{taken:,.2f}" for taken in row["stages_ms"].values()),
            )
            for row in figures["documents"]
        ],
        [f"{stage} ms" for stage in reversed(stages)],
    )
    daemon = figures["daemon"]
    memory = "memory unknown here"
    if daemon["peak_mb"] is not None:
        growth = f"{daemon['growth_mb']:+.1f} MB with length"
        memory = f"peak memory {daemon['peak_mb']:.1f} MB, {growth}"
    print_text(f"agent: ready in {daemon['ready_s']:.2f} s, {memory}")
