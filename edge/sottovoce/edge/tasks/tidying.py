"""What killed processes left half written in the agent's folders goes at a start an hour after.

Why it is here: a token or a head may lie in it, and nobody else knows which folders are the
agent's. Its state is; of the other folders only the names that the agent writes.
"""

from __future__ import annotations

from glob import escape

from sottovoce.core.privacy.graphs import GRAPHS
from sottovoce.core.system.leftovers import sweep
from sottovoce.edge.client.known_clouds import KNOWN_CLOUDS
from sottovoce.edge.config import Config
from sottovoce.edge.state.adapters import ADAPTERS

__all__ = ["tidy"]


def tidy(config: Config) -> None:
    """Removes it, where nobody writes just now and it is an hour old."""
    state, bundle, token = config.agent.state, config.bundle, config.cloud.token_file
    sweep(state)
    for kept in (ADAPTERS, GRAPHS):
        for folder in (state / kept).glob("*/"):
            sweep(folder)
    sweep(bundle.path, KNOWN_CLOUDS)
    sweep(bundle.path, escape(bundle.current.name))
    if token is not None:
        sweep(token.parent, escape(token.name))
        sweep(token.parent, f"{escape(token.name)}.*.new")  # of an enrolment
    if config.source is not None:
        sweep(config.source.parent, escape(config.source.name))
