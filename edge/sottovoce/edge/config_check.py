"""Check the values of settings, and which settings need each other.

A wrong setting is refused by name when it is read, not later when it is used. A limit that is out
of range would protect nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from sottovoce.core.bundle.signature import is_key
from sottovoce.core.errors import ConfigError, SottovoceError
from sottovoce.core.privacy import policies
from sottovoce.core.privacy.mechanisms.registry import MECHANISMS
from sottovoce.core.privacy.setting import LEVELS
from sottovoce.core.rpc.address import is_loopback, socket_path, split_address, split_url
from sottovoce.core.rpc.limits import MOST_PLAIN_TOKENS, NAME

if TYPE_CHECKING:
    from sottovoce.edge.config import Config

__all__ = ["check"]

_MOST_TOOLS = 128
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def check(config: Config) -> None:
    """Refuse settings that are out of range, unknown, or do not go together.

    Raises:
        ConfigError: a setting is wrong; the message gives its name, its value and the allowed
            values.
    """
    privacy, agent = config.privacy, config.agent
    demands = (
        (_is_level(privacy.level), "privacy.level", _either(LEVELS, "attack:0.3", "replaced:0.7")),
        (privacy.mechanism in MECHANISMS, "privacy.mechanism", _either(MECHANISMS)),
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
        (
            _LANGUAGE.fullmatch(config.bundle.language),
            "bundle.language",
            'the code of a language, such as "en"',
        ),
        (privacy.finder in ("small", "full"), "privacy.finder", '"small" or "full"'),
        (config.tagger.backend in ("onnx", "spacy"), "tagger.backend", '"onnx" or "spacy"'),
        (
            config.tagger.backend != "spacy" or config.tagger.pipeline,
            "tagger.pipeline",
            "the name of an installed spaCy pipeline",
        ),
        (
            bool(config.cloud.certificate) == bool(config.cloud.certificate_key),
            "cloud.certificate_key",
            "cloud.certificate and cloud.certificate_key together, or neither",
        ),
        (
            bool(agent.tls_cert) == bool(agent.tls_key),
            "agent.tls_key",
            "agent.tls_cert and agent.tls_key together, or neither",
        ),
        (
            not agent.group or (agent.apps and agent.listen.startswith("unix:")),
            "agent.group",
            "it with agent.apps = true and a unix socket, as whoever opens it is else the owner",
        ),
        (
            config.predict.where in ("device", "cloud", "auto"),
            "predict.where",
            '"device", "cloud" or "auto"',
        ),
        (
            not config.cloud.tenant or NAME.fullmatch(config.cloud.tenant),
            "cloud.tenant",
            "the name that the provider gave: small letters, digits, - and _",
        ),
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
        (
            agent.listen.removeprefix("unix:"),
            "agent.listen",
            '"unix:PATH" or "HOST:PORT"',
        ),
        *(
            (_value(config, key).isprintable(), key, "a name on one line")
            for key in ("agent.group", "bundle.backbone", "chat.model", "tagger.pipeline")
        ),
    )
    where = config.source or "the environment"
    for holds, key, wanted in demands:
        if not holds:
            raise ConfigError(
                f"{where}: {key} {_shown(_value(config, key))}", fix=f"give {wanted}", subject=key
            )
    try:
        if config.hide.words or config.hide.allow or config.hide.patterns:
            config.hide.hiding()
    except SottovoceError as error:
        key = f"hide.{error.subject}"
        raise ConfigError(f"{where}: {key}: {error.problem}", fix=error.fix, subject=key) from error
    for key, read in _READ.items():
        value = _value(config, key)
        try:
            if value or key not in _MAY_BE_EMPTY:
                read(value)
        except SottovoceError as error:
            # A URL may hold a password.
            shown = "" if key in ("agent.trace", "chat.upstream") else f" {_shown(value)}"
            raise ConfigError(
                f"{where}: {key}{shown}: {error.problem}", fix=error.fix, subject=key
            ) from error


def _is_level(name: str) -> bool:
    if name in LEVELS:
        return True
    from sottovoce.core.bundle.levels import is_target  # imports NumPy, which most commands avoid

    return is_target(name)


def _loopback(address: str) -> None:
    if not is_loopback(split_address(address)[0]):
        raise ConfigError(
            f"{address!r} is reachable by others", fix='give one such as "127.0.0.1:8472"'
        )


def _listen(address: str) -> None:
    if socket_path(address) is None:
        split_address(address)


def _collector(address: str) -> None:
    from sottovoce.core.rpc.opentelemetry import collector  # only with tracing

    collector(address)


_READ: Final[dict[str, Callable[[str], object]]] = {
    "privacy.policy": policies.find,
    "privacy.least_policy": policies.find,
    "chat.policy": policies.find,
    "agent.listen": _listen,
    "agent.trace": _collector,
    "cloud.address": split_address,
    "chat.upstream": split_url,
    "openai.address": _loopback,
    "ui.address": _loopback,
}
"""Settings that a function parses; it refuses wrong values."""
_MAY_BE_EMPTY: Final = ("agent.trace", "cloud.address", "chat.upstream", "openai.address")


def _value(config: Config, name: str) -> Any:
    section, _, key = name.partition(".")
    return getattr(getattr(config, section), key)


def _shown(value: object) -> str:
    if value in (None, ""):
        return "is not set"
    return f"cannot be {value if isinstance(value, int | float) else str(value)!r}"


def _either(names: Iterable[str], *targets: str) -> str:
    known = ", ".join(f'"{name}"' for name in names)
    return f"one of {known}" + (f"; or a target such as {' or '.join(targets)}" if targets else "")
