"""``sotto status``."""

from __future__ import annotations

import click

from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import backend, is_running
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.tasks import spending

__all__ = ["command"]


@click.command("status", cls=Command)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show bundle, ledger and customisations."""
    config = load_config(ctx)
    running = is_running(config)
    with backend(config) as source:
        response = source.status()
    if as_json:
        print_json(views.status(response, running=running))
        return
    ledger = response.ledger
    rows = [
        ("agent", f"{response.version}, {'running' if running else 'not running'}"),
        ("bundle", response.bundle_id or "none: run `sotto pull HOST:PORT`"),
        ("backbone", response.backbone or "-"),
        ("default", f"{response.default_mechanism}, {response.default_level}"),
        ("cloud", response.cloud_address or "none configured"),
        ("doorway", f"http://{response.doorway}/v1" if response.doorway else "closed"),
        ("ledger", spending.spent(ledger)),
        (
            "labels",
            f"epsilon {ledger.label_epsilon:.6g} spent on {ledger.labels_randomized}, "
            f"{ledger.labels_as_they_are} sent as they are",
        ),
        (
            "adapters",
            f"{ledger.adapters_private} private: epsilon {ledger.adapter_epsilon:.6g} and delta "
            f"{ledger.adapter_delta:.2g} in sum, towards whoever gets or asks them",
        ),
    ]
    for name, value in rows:
        click.echo(f"{name + ':':11}{value}")
    for record in response.customizations:
        view = views.customization(record)
        progress = f"{view['uploaded']}/{view['examples']} uploaded"
        if view["epochs"]:
            progress += f", epoch {view['epoch']}/{view['epochs']}"
        message = f"  {view['message']}" if view["message"] else ""
        click.echo(f"  {view['adapter']}  {view['state'].lower()}  {progress}{message}")
