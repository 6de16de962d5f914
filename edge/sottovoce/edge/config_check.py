"""Check the values of settings, and which settings need each other.

A wrong setting is refused by name when it is read, not later when it is used. A limit that is out
of range would protect nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sottovoce.core.bundle.signature import is_key
from sottovoce.core.errors import ConfigError, SottovoceError
from sottovoce.core.privacy import policies
from sottovoce.core.privacy.mechanisms import MECHANISMS
from sottovoce.core.privacy.policies import LEVELS
from sottovoce.core.rpc.address import is_loopback, socket_path, split_address, split_url
from sottovoce.core.rpc.limits import MOST_PLAIN_TOKENS, MOST_TOOLS, NAME, TOOL_NAME

if TYPE_CHECKING:
    from sottovoce.edge.config import Config

_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def _within(least: float, most: float) -> Callable[[float], bool]:
    return lambda value: least <= value <= most


def _if_set(rule: Callable[[str], object]) -> Callable[[str], object]:
    return lambda value: not value or rule(value)


def _either(names: Iterable[str], *targets: str) -> str:
    known = ", ".join(f'"{name}"' for name in names)
    return f"one of {known}" + (f"; or a target such as {' or '.join(targets)}" if targets else "")


def _is_level(name: str) -> bool:
    if name in LEVELS:
        return True
    from sottovoce.core.bundle.levels import is_target  # imports NumPy, which most commands avoid

    return is_target(name)


def _loopback(address: str) -> bool:
    if not is_loopback(split_address(address)[0]):
        raise ConfigError(
            f"{address!r} is reachable by others", fix='give one such as "127.0.0.1:8472"'
        )
    return True


def _listen(address: str) -> object:
    return address.removeprefix("unix:") and (socket_path(address) or split_address(address))


def _collector(address: str) -> object:
    from sottovoce.core.rpc.telemetry import collector  # only with tracing

    return collector(address)


_ONE_LINE: Final = (str.isprintable, "a name on one line")
_RULES: Final[dict[str, tuple[Callable[[Any], object], str]]] = {
    "privacy.level": (_is_level, _either(LEVELS, "attack:0.3", "replaced:0.7")),
    "privacy.mechanism": (MECHANISMS.__contains__, _either(MECHANISMS)),
    "privacy.policy": (policies.find, ""),
    "privacy.largest_eta": (lambda eta: eta > 0, "a positive number"),
    "privacy.least_policy": (policies.find, ""),
    "privacy.unsure_below": (_within(0, 1), "a number from 0 to 1"),
    "privacy.ledger_limit": (
        lambda limit: limit >= 0 and math.isfinite(limit),
        "0 for no limit, or the permitted sum of eta",
    ),
    "privacy.warn_after": (lambda number: number >= 0, "a number of messages, 0 for never"),
    "privacy.plain_tokens": (
        _within(0, MOST_PLAIN_TOKENS),
        f"a number from 0 to {MOST_PLAIN_TOKENS}",
    ),
    "privacy.finder": (
        ("auto", "small", "full").__contains__,
        '"auto", "small" or "full"',
    ),
    "bundle.key": (_if_set(is_key), "the provider's public key, ed25519:..."),
    "bundle.language": (_LANGUAGE.fullmatch, 'the code of a language, such as "en"'),
    "bundle.backbone": _ONE_LINE,
    "tagger.backend": (("onnx", "spacy").__contains__, '"onnx" or "spacy"'),
    "tagger.pipeline": _ONE_LINE,
    "cloud.address": (_if_set(split_address), ""),
    "cloud.tenant": (
        _if_set(NAME.fullmatch),
        "the name that the provider gave: small letters, digits, - and _",
    ),
    "predict.where": (("device", "cloud", "auto").__contains__, '"device", "cloud" or "auto"'),
    "predict.corrections": (_within(0, 100_000), "0 to 100000"),
    "chat.policy": (policies.find, ""),
    "chat.upstream": (_if_set(split_url), ""),
    "chat.model": _ONE_LINE,
    "chat.keep_days": (_within(0, 3650), "a number from 0 to 3650"),
    "chat.trusted_tools": (
        lambda tools: len(tools) <= MOST_TOOLS and all(map(TOOL_NAME.fullmatch, tools)),
        f"at most {MOST_TOOLS} names of functions (letters, digits, _ and -, at most 64)",
    ),
    "openai.address": (_if_set(_loopback), ""),
    "ui.address": (_loopback, ""),
    "agent.listen": (_listen, '"unix:PATH" or "HOST:PORT"'),
    "agent.trace": (_if_set(_collector), ""),
    "agent.group": _ONE_LINE,
    "agent.key_place": (
        ("file", "credential", "keyring").__contains__,
        '"file", "credential" or "keyring"',
    ),
}
"""What each setting must fulfil by itself, and what to give instead.

A rule returns whether the value fulfils it, or raises the error that says why not.
"""


def check(config: Config) -> None:
    """Refuse settings that are out of range, unknown, or do not go together.

    Raises:
        ConfigError: a setting is wrong; the message gives its name, its value and the allowed
            values.
    """
    where = config.source or "the environment"

    def refuse(key: str, wanted: str) -> NoReturn:
        shown = _shown(_value(config, key))
        raise ConfigError(f"{where}: {key} {shown}", fix=f"give {wanted}", subject=key)

    for key, (rule, wanted) in _RULES.items():
        value = _value(config, key)
        try:
            holds = rule(value)
        except SottovoceError as error:
            # A URL may hold a password.
            shown = "" if key in ("agent.trace", "chat.upstream") else f" {_shown(value)}"
            raise ConfigError(
                f"{where}: {key}{shown}: {error.problem}", fix=error.fix, subject=key
            ) from error
        if not holds:
            refuse(key, wanted)
    try:
        if config.hide.words or config.hide.allow or config.hide.patterns:
            config.hide.hiding()
    except SottovoceError as error:
        key = f"hide.{error.subject}"
        raise ConfigError(f"{where}: {key}: {error.problem}", fix=error.fix, subject=key) from error
    agent, cloud, tagger = config.agent, config.cloud, config.tagger
    if tagger.backend == "spacy" and not tagger.pipeline:
        refuse("tagger.pipeline", "the name of an installed spaCy pipeline")
    if bool(cloud.certificate) != bool(cloud.certificate_key):
        wanted = "cloud.certificate and cloud.certificate_key together, or neither"
        refuse("cloud.certificate_key", wanted)
    if bool(agent.tls_cert) != bool(agent.tls_key):
        refuse("agent.tls_key", "agent.tls_cert and agent.tls_key together, or neither")
    if agent.group and not (agent.apps and agent.listen.startswith("unix:")):
        wanted = (
            "it with agent.apps = true and a unix socket, as whoever opens it is else the owner"
        )
        refuse("agent.group", wanted)


def _value(config: Config, name: str) -> Any:
    section, _, key = name.partition(".")
    return getattr(getattr(config, section), key)


def _shown(value: object) -> str:
    if value in (None, ""):
        return "is not set"
    return f"cannot be {value if isinstance(value, int | float) else str(value)!r}"
