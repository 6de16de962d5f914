"""``sotto status``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from importlib import resources
from pathlib import PurePosixPath

import click

from sottovoce.core.bundle.folder import CARDS, Bundle
from sottovoce.core.errors import NotReady, Remedy, Side
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    json_option,
    plain,
    print_fact,
    print_json,
    print_table,
    print_text,
)
from sottovoce.core.text import context_finder
from sottovoce.edge.cli import common, views
from sottovoce.edge.cli.client import is_running, reach, remote
from sottovoce.edge.cli.common import interruptible, load_config
from sottovoce.edge.config import Config
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks import doctor, spending
from sottovoce.edge.tasks.doctor import Finding
from sottovoce.edge.tasks.engine import open_current
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_owner_pb2 as owner

__all__ = [
    "doctor_command",
    "examine",
    "ledger_command",
    "licences_command",
    "logs_command",
    "status_command",
]


@click.command("status", cls=Command)
@json_option
@click.pass_context
def status_command(ctx: click.Context, as_json: bool) -> None:
    """Show bundle, ledger and customisations."""
    config = load_config(ctx)
    running = is_running(config)
    with reach(config) as client:
        response: agent.GetStatusResponse = client.agent.GetStatus(agent.GetStatusRequest())
    if as_json:
        print_json(views.status(response, running=running))
        return
    rows = [
        ("agent", f"{response.version}, {'running' if running else 'not running'}"),
        ("bundle", response.bundle_id or f"none: {Remedy.GET_BUNDLE.value[Side.DEVICE]}"),
        ("backbone", response.backbone or "-"),
        ("level", f"{response.default_level}, by the mechanism {response.default_mechanism}"),
        ("cloud", response.cloud_address or "none configured"),
        ("openai", f"http://{response.openai_address}/v1" if response.openai_address else "closed"),
        *spending.lines(response),
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
@json_option
@click.pass_context
def ledger_command(ctx: click.Context, as_json: bool) -> None:
    """Say in words what privacy was spent on this device, and for how much more there is room."""
    config = load_config(ctx)
    with reach(config) as client:
        status = client.agent.GetStatus(agent.GetStatusRequest())
        spent = client.owner.GetSpending(owner.GetSpendingRequest())
    warning = spending.warning(status, config.privacy.warn_after)
    if as_json:
        shown = views.status(status, running=False)["ledger"]
        print_json(
            shown
            | {
                "messages_left": spending.messages_left(status),
                "warning": warning,
                "days": [asdict(each) for each in spending.by_day(spent)],
                "purposes": [asdict(each) for each in spending.by_purpose(spent)],
            }
        )
        return
    if warning:
        click.secho(f"warning    {warning}", fg="yellow")
    for name, value in spending.lines(status):
        print_fact(name, value, 11)
    for title, sums in (("day", spending.by_day(spent)), ("for", spending.by_purpose(spent))):
        if sums:
            click.echo()
            rows = [
                (plain(e.heading, line=True), spending.amount(e.spent), f"{e.releases:,}")
                for e in sums
            ]
            print_table((title, "eta spent", "texts"), rows)
    click.echo()
    print_text(spending.MEANING)


@click.command("logs", cls=Command)
@click.argument("name")
@click.option("--follow/--no-follow", "-f", default=True, help="Until it ends.  [default: follow]")
@json_option
@click.pass_context
def logs_command(ctx: click.Context, name: str, follow: bool, as_json: bool) -> None:
    """Follow the newest training of the adapter NAME, a line for every change.

    The agent writes its own log to standard error, or to the journal where systemd runs it.
    """
    request = agent.WatchCustomizationRequest(adapter=name)
    with remote(load_config(ctx)) as client:
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
@json_option
@click.pass_context
def doctor_command(ctx: click.Context, as_json: bool) -> None:
    """Check this device's setup and say how to mend it; changes nothing but an empty state.

    The exit code is 3 if a check fails.
    """
    findings: list[Finding] = []
    for finding in examine(ctx):
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


_OURS = "Apache-2.0"


@click.command("licences", cls=Command)
@json_option
@click.pass_context
def licences_command(ctx: click.Context, as_json: bool) -> None:
    """Say under which licences the program and the models of the bundle are, and whose texts they
    learnt."""
    bundle = open_current(load_config(ctx).bundle)
    cards, finder = _cards(bundle), context_finder.card()
    full = (resources.files("sottovoce.core.local") / "full_finder.md").read_text("utf-8")
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
