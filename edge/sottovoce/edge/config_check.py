"""What settings must be, beyond their types, and which of them need each other.

Why it is here: a limit that is out of range protects from nothing, so it is refused when it is
read, by its name, and not when it would have been needed.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING

from sottovoce.core.bundle.signature import is_key
from sottovoce.core.errors import ConfigError, NotFound
from sottovoce.core.privacy import policies
from sottovoce.core.wire.limits import MOST_PLAIN_TOKENS

if TYPE_CHECKING:
    from sottovoce.edge.config import Config

__all__ = ["check"]

_MOST_TOOLS = 128
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check(config: Config) -> None:
    """Refuses settings that are out of range, or do not go together.

    Raises:
        ConfigError: one is; it names the setting.
    """
    privacy, agent = config.privacy, config.agent
    demands = (
        (privacy.largest_eta > 0, "privacy.largest_eta", "a positive number"),
        (0 <= privacy.unsure_below <= 1, "privacy.unsure_below", "a number from 0 to 1"),
        (
            privacy.ledger_limit >= 0 and math.isfinite(privacy.ledger_limit),
            "privacy.ledger_limit",
            "0 for no limit, or the permitted sum of eta",
        ),
        (privacy.warn_after >= 0, "privacy.warn_after", "a number of messages, 0 for never"),
        (
            0 <= privacy.plain_tokens <= MOST_PLAIN_TOKENS,
            "privacy.plain_tokens",
            f"a number from 0 to {MOST_PLAIN_TOKENS}",
        ),
        (
            not config.bundle.key or is_key(config.bundle.key),
            "bundle.key",
            "the provider's public key, ed25519:...",
        ),
        (config.tagger.backend in ("onnx", "spacy"), "tagger.backend", '"onnx" or "spacy"'),
        (
            config.tagger.backend != "spacy" or config.tagger.pipeline,
            "tagger.pipeline",
            "the name of an installed spaCy pipeline",
        ),
        (
            bool(agent.tls_cert) == bool(agent.tls_key),
            "agent.tls_key",
            "tls_cert and tls_key together, or neither",
        ),
        (
            config.predict.where in ("device", "cloud", "auto"),
            "predict.where",
            '"device", "cloud" or "auto"',
        ),
        (0 <= config.cloud.devices_port <= 65_535, "cloud.devices_port", "a port, or 0 for none"),
        (0 <= config.predict.corrections <= 100_000, "predict.corrections", "0 to 100000"),
        (0 <= config.chat.keep_days <= 3650, "chat.keep_days", "a number from 0 to 3650"),
        (
            len(config.chat.trusted_tools) <= _MOST_TOOLS
            and all(map(_TOOL.fullmatch, config.chat.trusted_tools)),
            "chat.trusted_tools",
            f"at most {_MOST_TOOLS} names of functions (letters, digits, _ and -, at most 64)",
        ),
        (
            agent.key_place in ("file", "credential", "keyring"),
            "agent.key_place",
            '"file", "credential" or "keyring"',
        ),
        (agent.listen, "agent.listen", '"unix:PATH" or "HOST:PORT"'),
        (
            not agent.group or (agent.apps and agent.listen.startswith("unix:")),
            "agent.group",
            "it with agent.apps = true and a unix socket, as whoever opens it is else the owner",
        ),
    )
    where = config.source or "the environment"
    for holds, key, wanted in demands:
        if not holds:
            raise ConfigError(f"{where}: {key} is out of range", fix=f"give {wanted}", subject=key)
    for key, policy in (
        ("privacy.policy", privacy.policy),
        ("privacy.least_policy", privacy.least_policy),
        ("chat.policy", config.chat.policy),
    ):
        try:
            policies.find(policy)
        except NotFound as error:
            raise ConfigError(
                f"{where}: {key} is not a policy", fix=error.fix, subject=key
            ) from error
    for section in dataclasses.fields(config):
        part = getattr(config, section.name)
        for name in ("level", "mechanism", "policy"):
            if getattr(part, name, "set") == "":
                raise ConfigError(f"{where}: {section.name}.{name} is empty", fix="drop the line")
