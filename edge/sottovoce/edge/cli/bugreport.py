"""``sotto bugreport``."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from collections import Counter
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import click

from sottovoce.core.bundle.levels import is_target
from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.console import Command, json_option, plain, print_json
from sottovoce.core.privacy.mechanisms.registry import MECHANISMS
from sottovoce.core.privacy.policies import POLICIES
from sottovoce.core.privacy.setting import LEVELS
from sottovoce.edge.cli.client import is_running
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.cli.reports import examine
from sottovoce.edge.config import Config
from sottovoce.edge.state.database import DATABASE, Store
from sottovoce.edge.state.device_key import key_in
from sottovoce.edge.state.ledger import Ledger
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.tasks.doctor import Finding
from sottovoce.edge.tasks.engine import open_current
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]

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
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Print what a report of a fault needs: versions, settings, findings, sizes.

    There is no text in it, no name of an adapter, a tenant, a user, a host or a path, and no
    secret: of such settings it says only whether they are set. The report is sent nowhere; a
    cloud that is configured is asked what `sotto doctor` asks it.
    """
    report: dict[str, Any] = {"versions": _versions(), "machine": _machine()}
    findings = [*examine(ctx)]
    report["doctor"] = {
        each.check: " ".join(filter(None, (each.result, each.reason, _seen(each))))
        for each in findings
    }
    if findings[0].result == "OK":
        config = load_config(ctx)
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
    pages, size = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "processor": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "cores": os.cpu_count(),
        "memory_mb": pages * size >> 20,
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
