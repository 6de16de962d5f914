"""Remove files that killed processes left half written, at a start an hour later.

The files may hold a token or a head. Only the agent knows which folders are its own. In the state's
folder it removes all half-written files. In other folders it removes only names that it writes.
"""

from __future__ import annotations

from glob import escape

from sottovoce.core.platform.files import sweep
from sottovoce.core.privacy.graphs import GRAPHS
from sottovoce.edge.client.connection import KNOWN_CLOUDS
from sottovoce.edge.config import Config
from sottovoce.edge.state.adapters import ADAPTERS

__all__ = ["tidy"]


def tidy(config: Config) -> None:
    """Remove files that are an hour old and that no process is writing."""
    state, bundle, token = config.agent.state, config.bundle, config.cloud.token_file
    sweep(state)
    for kept in (ADAPTERS, GRAPHS):
        for folder in (state / kept).glob("*/"):
            sweep(folder)
    sweep(bundle.path, KNOWN_CLOUDS)
    sweep(bundle.path, escape(bundle.current.name))
    if token is not None:
        sweep(token.parent, escape(token.name))
        sweep(token.parent, f"{escape(token.name)}.*.new")  # left by an enrolment
    if config.source is not None:
        sweep(config.source.parent, escape(config.source.name))
