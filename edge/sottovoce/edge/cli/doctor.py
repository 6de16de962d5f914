"""``sotto doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import click

from sottovoce.core.errors import NotReady
from sottovoce.core.platform.console import Command, json_option, plain, print_json
from sottovoce.edge.cli.client import is_running
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.config import Config
from sottovoce.edge.tasks import doctor
from sottovoce.edge.tasks.doctor import Finding

__all__ = ["command", "examine"]


@click.command("doctor", cls=Command)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check this device's setup and say how to mend it; changes nothing but an empty state.

    The exit code is 3 if a check fails.
    """
    findings: list[Finding] = []
    for finding in examine(ctx):
        findings.append(finding)
        if as_json:
            continue
        click.echo(f"{finding.result:5} {finding.check:12} {plain(finding.detail, line=True)}")
        if finding.fix:
            click.echo(f"        fix: {plain(finding.fix, line=True)}")
    failed = [finding.check for finding in findings if finding.result == "FAIL"]
    if as_json:
        checks = [asdict(finding) for finding in findings]
        print_json({"ok": not failed, "checks": checks})
    if failed:
        ctx.exit(NotReady.exit_code)


def examine(ctx: click.Context) -> Iterator[Finding]:
    """Check that the settings load, then yield findings of `doctor.examine`."""
    config: Config | None = None

    def read() -> str:
        nonlocal config
        config = load_config(ctx)
        return str(config.source or "defaults; no file")

    yield doctor.run("config", read)
    if config is not None:
        yield from doctor.examine(config, is_running)
