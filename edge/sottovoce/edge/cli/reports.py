"""``sotto status``, ``ledger``, ``logs``, ``doctor``, ``licences``, ``bugreport`` and ``bench``."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath
from typing import Any, Final

import click

from sottovoce.core.bundle.folder import CARDS, Bundle
from sottovoce.core.bundle.levels import is_target
from sottovoce.core.errors import NotReady, SottovoceError, Unavailable
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    plain,
    print_fact,
    print_json,
    print_table,
    print_text,
    progress_bar,
)
from sottovoce.core.privacy.mechanisms import MECHANISMS
from sottovoce.core.privacy.policies import LEVELS, POLICIES, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text import context_finder
from sottovoce.edge import measure
from sottovoce.edge.bundle import not_there
from sottovoce.edge.cli import common, views
from sottovoce.edge.cli.client import connect, is_running, reach, remote
from sottovoce.edge.cli.common import interruptible, load_config, privacy_options
from sottovoce.edge.config import Config
from sottovoce.edge.state.database import DATABASE, Store
from sottovoce.edge.state.device_key import key_in
from sottovoce.edge.state.ledger import Ledger
from sottovoce.edge.state.outbox import ENDED, Outbox
from sottovoce.edge.tasks import doctor, spending_report
from sottovoce.edge.tasks.doctor import Finding
from sottovoce.edge.tasks.engine import open_current, open_tagger
from sottovoce.edge.tasks.privatize import resolve
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_owner_pb2 as owner


@click.command("status", cls=Command)
def status_command(as_json: bool) -> None:
    """Show bundle, ledger and customisations."""
    config = load_config()
    running = is_running(config)
    with reach(config) as client:
        response: agent.GetStatusResponse = client.agent.GetStatus(agent.GetStatusRequest())
    if as_json:
        print_json(views.status(response, running=running))
        return
    rows = [
        ("agent", f"{response.version}, {'running' if running else 'not running'}"),
        ("bundle", response.bundle_id or f"none: {not_there(config.bundle)}"),
        ("backbone", response.backbone or "-"),
        ("level", f"{response.default_level}, by the mechanism {response.default_mechanism}"),
        ("cloud", response.cloud_address or "none configured"),
        ("openai", f"http://{response.openai_address}/v1" if response.openai_address else "closed"),
        *spending_report.lines(response),
    ]
    for name, value in rows:
        print_fact(f"{name}:", value, 12)
    for record in response.customizations:
        view = views.customization(record)
        progress = f"{view['uploaded']}/{view['examples']} uploaded"
        if view["epochs"]:
            progress += f", epoch {view['epoch']}/{view['epochs']}"
        message = f"  {view['message']}" if view["message"] else ""
        told = plain(f"{view['adapter']}  {view['state']}  {progress}{message}", line=True)
        print_text(f"  {told}", indent="    ")


@click.command("ledger", cls=Command)
def ledger_command(as_json: bool) -> None:
    """Say in words how much privacy this device has spent, and how much it may still spend."""
    config = load_config()
    with reach(config) as client:
        status = client.agent.GetStatus(agent.GetStatusRequest())
        spent = client.owner.GetSpending(owner.GetSpendingRequest())
    warning = spending_report.warning(status, config.privacy.warn_after)
    if as_json:
        shown = views.status(status, running=False)["ledger"]
        print_json(
            shown
            | {
                "messages_left": spending_report.messages_left(status),
                "warning": warning,
                "days": [asdict(each) for each in spending_report.by_day(spent)],
                "purposes": [asdict(each) for each in spending_report.by_purpose(spent)],
            }
        )
        return
    if warning:
        click.secho(f"warning    {warning}", fg="yellow")
    for name, value in spending_report.lines(status):
        print_fact(name, value, 11)
    for title, sums in (
        ("day", spending_report.by_day(spent)),
        ("for", spending_report.by_purpose(spent)),
    ):
        if sums:
            click.echo()
            rows = [
                (plain(e.heading, line=True), spending_report.amount(e.spent), f"{e.releases:,}")
                for e in sums
            ]
            print_table((title, "eta spent", "texts"), rows)
    click.echo()
    print_text(spending_report.MEANING)


@click.command("logs", cls=Command)
@click.argument("name")
@click.option(
    "--follow/--no-follow", "-f", default=True, help="Follow until it ends.  [default: follow]"
)
def logs_command(name: str, follow: bool, as_json: bool) -> None:
    """Follow the newest training of the adapter NAME, a line for every change.

    The agent writes its own log to standard error, or to the journal where systemd runs it.
    """
    request = agent.WatchCustomizationRequest(adapter=name)
    with remote(load_config()) as client:
        if_interrupted(*common.left(name))
        for response in interruptible(partial(client.agent.WatchCustomization, request)):
            record: agent.Customization = response.customization
            if as_json:
                print_json(views.customization(record))
            else:
                click.echo(common.sentence(record))
            if not follow:
                return
    if record.state in ENDED and record.state != agent.CUSTOMIZATION_STATE_SUCCEEDED:
        raise NotReady(f"adapter {name!r} was not trained", subject=name)


@click.command("doctor", cls=Command)
@click.pass_context
def doctor_command(ctx: click.Context, as_json: bool) -> None:
    """Check this device's setup and say how to fix it; changes nothing but an empty state.

    The exit code is 3 if a check fails.
    """
    findings: list[Finding] = []
    for finding in examine():
        findings.append(finding)
        if as_json:
            continue
        print_fact(f"{finding.result:5} {finding.check:12} ", finding.detail, 19)
        if finding.fix:
            print_fact("        fix: ", finding.fix, 13)
    failed = [finding.check for finding in findings if finding.result == "FAIL"]
    if as_json:
        checks = [asdict(finding) for finding in findings]
        print_json({"ok": not failed, "checks": checks})
    if failed:
        ctx.exit(NotReady.exit_code)


def examine() -> Iterator[Finding]:
    """Check that the settings load, then yield findings of `doctor.examine`."""
    config: Config | None = None

    def read() -> str:
        nonlocal config
        config = load_config()
        return str(config.source or "defaults; no file")

    yield doctor.run("config", read)
    if config is not None:
        yield from doctor.examine(config, is_running)


_OURS = "Apache-2.0"


@click.command("licences", cls=Command)
def licences_command(as_json: bool) -> None:
    """Show the licences of the program and the bundle's models, and the models' training texts."""
    bundle = open_current(load_config().bundle)
    cards, finder = _cards(bundle), context_finder.card()
    full = (resources.files("sottovoce.core.bundle") / "full_finder.md").read_text("utf-8")
    if as_json:
        own = {"context_finder": finder, "full_finder": full}
        print_json({"program": _OURS, "own_cards": own, "bundle_id": bundle.id, "cards": cards})
        return
    click.echo(f"program: {_OURS}\n\n{finder}\n{full}\nbundle {bundle.id}:\n")
    for card in cards.values():
        click.echo(plain(card))
    if not cards:
        click.echo("it brings no cards of its models: it is of an earlier version; ask who made it")


def _cards(bundle: Bundle) -> dict[str, str]:
    """Return the model cards of the bundle's parts that have one."""
    files = map(PurePosixPath, sorted(bundle.manifest.files))
    return {
        path.stem: (bundle.folder / path).read_text(encoding="utf-8", errors="replace")
        for path in files
        if path.parent == PurePosixPath(CARDS)
    }


_PACKAGES: Final = (
    "sottovoce-edge",
    "sottovoce-protos",
    "grpcio",
    "h11",
    "hnswlib",
    "numpy",
    "onnxruntime",
    "protobuf",
    "spacy",
    "tokenizers",
)
_WORDS: Final = {"auto", "cloud", "device", "en", "onnx", "spacy", *LEVELS, *MECHANISMS, *POLICIES}
"""Values of settings, besides numbers, that the report shows unchanged."""
_TOLD: Final = ("randomness", "claims", "floors", "tagger")
"""Checks whose findings hold no personal data; a failure may still name a path."""


@click.command("bugreport", cls=Command)
def bugreport_command(as_json: bool) -> None:
    """Print the facts for a bug report: versions, settings, findings, sizes.

    The report contains no text, no name of an adapter, a tenant, a user, a host or a path, and no
    secret. For settings with these values, it says only whether they are set. The report is sent
    nowhere. A configured cloud gets the same questions as from `sotto doctor`.
    """
    report: dict[str, Any] = {"versions": _versions(), "machine": _machine()}
    findings = [*examine()]
    report["doctor"] = {
        each.check: " ".join(filter(None, (each.result, each.reason, _seen(each))))
        for each in findings
    }
    if findings[0].result == "OK":
        config = load_config()
        report["settings"] = _settings(config)
        report["running"] = is_running(config)
        report["state"] = _state(config)
        report["bundle"] = _bundle(config)
    if as_json:
        print_json(report)
        return
    for part, told in report.items():
        click.echo(f"[{part}]")
        for name, value in told.items() if isinstance(told, dict) else [(part, told)]:
            click.echo(f"{name} = {plain(str(value), line=True)}")
        click.echo()


def _seen(finding: Finding) -> str:
    return finding.detail if finding.check in _TOLD and finding.result == "OK" else ""


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def _machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "processor": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "cores": os.cpu_count(),
        "memory_mb": _memory_mb(),
    }


def _settings(config: Config) -> dict[str, Any]:
    """Return settings by name, without private values.

    Numbers and known words appear unchanged, other values as "set" or "none".
    """
    return {
        f"{section.name}.{each.name}": _told(getattr(getattr(config, section.name), each.name))
        for section in dataclasses.fields(config)
        if section.name != "source"
        for each in dataclasses.fields(getattr(config, section.name))
    } | {"file": "set" if config.source else "none"}


def _told(value: Any) -> Any:
    """
    >>> _told(0.7), _told("balanced"), _told("attack:0.3"), _told("mail"), _told("")
    (0.7, 'balanced', 'attack:0.3', 'set', 'none')
    """
    if isinstance(value, bool | int | float):
        return value
    if not value:
        return "none"
    if isinstance(value, str):
        if value in _WORDS or is_target(value):
            return value
        if value.startswith("unix:"):
            return "a unix socket"
        if re.fullmatch(r"(127\.0\.0\.1|localhost|\[::1\]):\d{1,5}", value):
            return "a port of loopback"
    return "set"


def _state(config: Config) -> dict[str, Any]:
    folder = config.agent.state
    if not (folder / DATABASE).exists():
        return {"database": "none"}
    try:
        with closing(Store.open(folder, key_in(config.agent.key_place))) as store:
            spending = Ledger(store, 0).spending()
            records = Outbox(store).all()
    except SottovoceError as error:
        return {"database": error.reason}
    states = Counter(
        agent.CustomizationState.Name(each.state).removeprefix("CUSTOMIZATION_STATE_").lower()
        for each in records
    )
    return {
        "database_bytes": _bytes(folder / DATABASE),
        "releases": spending.releases,
        "spent": spending.spent,
        **{f"customizations_{name}": count for name, count in sorted(states.items())},
    }


def _bundle(config: Config) -> dict[str, Any]:
    try:
        bundle = open_current(config.bundle)
    except SottovoceError as error:
        return {"bundle": error.reason}
    return {
        "id": bundle.id,
        "language": _told(bundle.manifest.language),
        "words": len(bundle.words),
        "files": len(bundle.manifest.files),
        "bytes": sum(each.bytes for each in bundle.manifest.files.values()),
    }


def _bytes(path: Path) -> int:
    return path.stat().st_size


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
@click.pass_context
def bench_command(
    ctx: click.Context,
    privacy: agent.PrivacyOptions,
    most: int,
    repeats: int,
    as_json: bool,
) -> None:
    """Measure this device: time from text to text, memory, and how soon an agent is ready.

    Texts are made of the bundle's own words. Times are medians of wall-clock time, so they include
    delays by other work on the device. Memory is measured in a second agent, which this command
    starts with the same bundle and a separate state. Nothing is charged and no cloud is contacted.
    """
    config = load_config()
    bundle = open_current(config.bundle)
    default = Setting(config.privacy.level, config.privacy.mechanism, config.privacy.policy)
    setting = resolve(privacy, default)
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
