"""``sotto-cloud build-bundle``: the command of ``sottovoce-models``, where that is installed."""

from __future__ import annotations

from importlib import import_module

import click

from sottovoce.core.errors import NotReady

try:
    command: click.Command = import_module("sottovoce.models.cli.bundle").build_bundle
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("sottovoce.models"):
        raise
    raise NotReady(
        "sottovoce-models, which builds bundles, is not installed",
        fix="install it beside the cloud: pip install sottovoce-models",
    ) from error
