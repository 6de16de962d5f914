"""The owner's settings: one TOML file, overridden by environment variables.

Settings are checked when they are read. An unknown name is refused, with the nearest known name. If
a mistyped key were ignored, the agent would run with another protection than the owner asked for.
There is no setting for a random seed, because privacy noise is never reproducible in production.
"""

from __future__ import annotations

import difflib
import os
import pwd
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.files import toml_place
from sottovoce.core.privacy.policies import LARGEST_ETA, LEAST_POLICY, Setting
from sottovoce.edge.config_check import check

if TYPE_CHECKING:
    from sottovoce.core.privacy.hiding import Hiding

MACHINE = Path("/etc/sottovoce/agent.toml")
"""Settings of an agent that serves a whole machine.

The commands of its user read them too; other users may not.
"""

_PREFIX = "SOTTO_"
_OF_THE_PROVIDER = frozenset(
    f"SOTTO_CLOUD_{name}"
    for name in ("BUNDLE", "CONFIG", "KEY_FILE", "LOG_FORMAT", "OBJECTS", "STATE", "STORE", "TRACE")
)
"""Settings of `sotto-cloud` whose names look like ours.

They are not refused, because one shell may serve both programs. Only these names are allowed, so a
mistyped setting of the agent is still refused.
"""
_DEFAULT = Setting()
_KINDS: dict[Any, str] = {
    str: "a string",
    Path: "a path (a string)",
    Path | None: "a path (a string)",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[str, ...]: "a list of strings",
}


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Where the daemon listens, and where it keeps its state.

    It listens on "unix:PATH" or "HOST:PORT". ``trace`` is the address of an OpenTelemetry
    collector, "" for no tracing. ``key_place`` is the place of the state's key: "file",
    "credential" or "keyring". With ``apps``, each call must carry a token, the owner's or an app's.
    Then ``group`` may name the users of this machine that can open the socket.
    """

    listen: str
    state: Path
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    trace: str = ""
    apps: bool = False
    group: str = ""
    key_place: str = "file"


@dataclass(frozen=True, slots=True)
class BundleConfig:
    """Location of the bundles, and the required backbone, language and key.

    The folder holds ``bundles/<id>/`` and the link ``current``. ``key`` is the provider's public
    key, which is then required. Without it, a cloud's key is noted when a bundle is first pulled
    from it. With ``accept_unchecked``, the owner trusts the provider's words and name finder where
    this device has no lists of the language.
    """

    path: Path
    backbone: str = ""
    key: str = ""
    language: str = "en"
    accept_unchecked: bool = False

    @property
    def current(self) -> Path:
        """Return the link to the bundle in use."""
        return self.path / "current"

    @property
    def pulled(self) -> Path:
        """Return the folder of pulled bundles, each in a folder named after its id."""
        return self.path / "bundles"


@dataclass(frozen=True, slots=True)
class PrivacyConfig:
    """Defaults for requests that name no setting, and the owner's limits.

    ``largest_eta`` limits how loose a level may be. ``least_policy`` is the weakest treatment of
    words. Both limits hold for every caller and every name of a level or policy.

    ``ledger_limit`` is the permitted sum of eta over protected words; 0 means none. Without a
    limit, the owner is warned once the cost of ``warn_after`` messages was spent; 0 never warns.
    ``finder`` says how the policy `personal` finds names: "small" ships with the device, "full"
    reads better and comes with a bundle's encoder, "auto" is the best that is there.
    ``plain_tokens`` is the number in front of each example; 0 uses the program's default.
    """

    level: str = _DEFAULT.level
    mechanism: str = _DEFAULT.mechanism
    policy: str = _DEFAULT.policy
    largest_eta: float = LARGEST_ETA
    least_policy: str = LEAST_POLICY
    unsure_below: float = 0.7
    finder: str = "auto"
    ledger_limit: float = 0.0
    warn_after: int = 1_000
    plain_tokens: int = 0


@dataclass(frozen=True, slots=True)
class HideConfig:
    """What to hide and what to let pass. The table may also be called ``[privacy.hide]``.

    Under the policy `personal` there is one switch for each kind of personal data, and the words in
    ``allow`` pass, unless they are also hidden. Under every policy, ``words`` never pass.
    ``patterns`` are texts "NAME=EXPRESSION"; text that matches the regular expression never passes.
    ``sotto words`` adds to both lists.
    """

    persons: bool = True
    places: bool = True
    organisations: bool = True
    contacts: bool = True
    numbers: bool = True
    secrets: bool = True
    dates: bool = True
    origins: bool = True
    unlisted: bool = False
    facts: bool = False
    words: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def hiding(self, allow: Iterable[str] = (), hide: Iterable[str] = ()) -> Hiding:
        """Return the choices as policies take them.

        Args:
            allow: words that pass in addition to the settings.
            hide: words that never pass in addition to the settings.

        Raises:
            InvalidInput: a word or a pattern cannot be taken.
        """
        from sottovoce.core.privacy.hiding import KINDS, Hiding  # most commands need no patterns

        switches = ((kind, getattr(self, kind)) for kind in KINDS)
        return Hiding.of(switches, (*self.allow, *allow), (*self.words, *hide), self.patterns)


@dataclass(frozen=True, slots=True)
class CloudConfig:
    """The cloud's address and this device's credentials.

    ``ca_file`` replaces the public certificate authorities. Every connection shows the certificate
    in the file ``certificate``, with its key in ``certificate_key``; None for no certificate.
    """

    address: str = ""
    tenant: str = ""
    token_file: Path | None = None
    ca_file: Path | None = None
    certificate: Path | None = None
    certificate_key: Path | None = None


@dataclass(frozen=True, slots=True)
class ChatConfig:
    """How conversations are privatised, and which server answers them.

    ``upstream`` is the address of a server with OpenAI's API ("https://HOST/v1"), with a separate
    key and certificate authorities. Without it, our cloud answers. ``model`` is used for requests
    that name none. ``keep_days`` limits how long a conversation can continue after its last turn; 0
    notes nothing. ``trusted_tools`` names functions; the owner trusts every address in their calls,
    so surrogates in these addresses are restored too. With ``ask_first``, the first message of a
    conversation leaves only once the owner has seen and allowed it.
    """

    policy: str = "personal"
    upstream: str = ""
    model: str = ""
    key_file: Path | None = None
    ca_file: Path | None = None
    keep_days: int = 30
    trusted_tools: tuple[str, ...] = ()
    ask_first: bool = False


@dataclass(frozen=True, slots=True)
class OpenAIConfig:
    """Where the daemon serves OpenAI's HTTP API: "127.0.0.1:PORT"; empty for nowhere.

    Unknown fields of a request are never passed on. With ``drop_unknown``, they are dropped, and
    the response names them. Otherwise the request is refused.
    """

    address: str = ""
    drop_unknown: bool = False


@dataclass(frozen=True, slots=True)
class UiConfig:
    """Where the daemon answers the owner's browser, once it is asked to.

    The address is "127.0.0.1:PORT"; port 0 takes a free one. ``record`` keeps sent data in memory
    for an hour.
    """

    address: str = "127.0.0.1:0"
    record: bool = False


@dataclass(frozen=True, slots=True)
class PredictConfig:
    """Where texts are classified: "device", "cloud" or "auto".

    "auto" means the device for adapters that it holds. ``corrections`` is how many answers of an
    adapter may be corrected at a time.
    """

    where: str = "auto"
    corrections: int = 1_000


@dataclass(frozen=True, slots=True)
class TaggerConfig:
    """Settings of the tagger.

    ``backend`` is "onnx" (the bundle's own tagger) or "spacy", which needs a ``pipeline``.
    """

    backend: str = "onnx"
    pipeline: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings; ``source`` is their file, or None if there was no file."""

    agent: AgentConfig
    bundle: BundleConfig
    privacy: PrivacyConfig
    hide: HideConfig
    cloud: CloudConfig
    chat: ChatConfig
    openai: OpenAIConfig
    predict: PredictConfig
    tagger: TaggerConfig
    ui: UiConfig
    source: Path | None = None


_SECTIONS: dict[str, Any] = {
    name: kind for name, kind in get_type_hints(Config).items() if name != "source"
}


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Read the settings.

    Args:
        path: the file; None takes SOTTO_CONFIG, else ``$XDG_CONFIG_HOME/sottovoce/agent.toml`` if
            it exists, else `MACHINE` if it may be read, else the defaults alone.
        environ: replaces the process's environment.

    Raises:
        ConfigError: unreadable file, unknown key, wrong type, value out of range.
    """
    environ = os.environ if environ is None else environ
    file = found(path, environ)
    values: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    if file is not None:
        _merge_file(values, file, environ)
    _merge_environment(values, environ)
    _add_places(values, environ)
    sections = {name: kind(**values[name]) for name, kind in _SECTIONS.items()}
    config = Config(**sections, source=file)
    check(config)
    return config


def found(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the file that `load` would read; None if there is none."""
    environ = os.environ if environ is None else environ
    if path or environ.get("SOTTO_CONFIG"):
        return path or Path(environ["SOTTO_CONFIG"])
    own = usual(environ)
    machine = MACHINE if os.access(MACHINE, os.R_OK) else None
    return own if _is_there(own) else machine


def _is_there(file: Path) -> bool:
    """Return whether a file exists, or is hidden: by a broken link or a closed folder.

    Without this, the defaults would silently replace an owner's stricter settings.
    """
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return any(place.is_symlink() and not place.exists() for place in (file, *file.parents))
    except OSError:
        pass
    return True


def usual(environ: Mapping[str, str] | None = None) -> Path:
    """Return the file of a user's own settings, whether or not it exists."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CONFIG_HOME") or f"{_home(environ)}/.config"
    return Path(base) / "sottovoce" / "agent.toml"


def kinds() -> dict[str, Any]:
    """Return the type of every setting, by the setting's name: "privacy.level"."""
    return {
        f"{section}.{key}": kind
        for section, fields in _SECTIONS.items()
        for key, kind in get_type_hints(fields).items()
    }


def variable(name: str) -> str:
    """Return the environment variable that overrides a setting."""
    return f"{_PREFIX}{name.replace('.', '_').upper()}"


def parsed(where: str, text: str, kind: Any, environ: Mapping[str, str] | None = None) -> Any:
    """Parse a setting's value from an environment variable's or command's text.

    Args:
        where: the variable or setting, named in errors.
        text: the value; ``~`` and ``$NAME`` are replaced.
        kind: one of `kinds`.
        environ: replaces the process's environment.

    Raises:
        ConfigError: the text is not a value of this kind.
    """
    value: Any = text
    try:
        if kind is bool:
            value = {"1": True, "true": True, "0": False, "false": False}[text.lower()]
        elif kind in (int, float):
            value = kind(text)
        elif kind == tuple[str, ...]:
            value = [each.strip() for each in text.split(",") if each.strip()]
    except (KeyError, ValueError):
        raise _wrong_type(where, kind) from None
    return _convert(where, value, kind, os.environ if environ is None else environ)


def _home(environ: Mapping[str, str]) -> str:
    """Return the user's home: HOME, or else the home in the system's list of users."""
    if home := environ.get("HOME"):
        return home
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise ConfigError(
            f"user {os.getuid()} has no home",
            fix="set HOME to a folder of this user",
            subject="HOME",
        ) from None


def _merge_file(values: dict[str, dict[str, Any]], file: Path, environ: Mapping[str, str]) -> None:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read the configuration {file}: {error.strerror}",
            fix="name another file with --config or SOTTO_CONFIG",
            subject=str(file),
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file} is not UTF-8 (byte {error.start})", fix="save it as UTF-8", subject=str(file)
        ) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{file} is not TOML{toml_place(error)}",
            fix="correct it, or name another file with --config or SOTTO_CONFIG",
            subject=str(file),
        ) from error
    if isinstance(privacy := document.get("privacy"), dict) and isinstance(
        hide := privacy.get("hide"), dict
    ):
        del privacy["hide"]
        document["hide"] = hide | document.get("hide", {})
    for section, keys in document.items():
        if section not in _SECTIONS or not isinstance(keys, dict):
            raise _unknown(str(file), f"[{section}]", section, list(_SECTIONS))
        for key, value in keys.items():
            kind = _kind(str(file), section, key)
            values[section][key] = _convert(f"{file}: {section}.{key}", value, kind, environ)


def _merge_environment(values: dict[str, dict[str, Any]], environ: Mapping[str, str]) -> None:
    for name, text in environ.items():
        section, _, key = name.removeprefix(_PREFIX).lower().partition("_")
        if not name.startswith(_PREFIX) or section not in _SECTIONS or name in _OF_THE_PROVIDER:
            continue
        values[section][key] = parsed(name, text, _kind(name, section, key), environ)


def _add_places(values: dict[str, dict[str, Any]], environ: Mapping[str, str]) -> None:
    home = _home(environ)
    state = Path(environ.get("XDG_STATE_HOME") or f"{home}/.local/state") / "sottovoce"
    data = Path(environ.get("XDG_DATA_HOME") or f"{home}/.local/share") / "sottovoce"
    state = values["agent"].setdefault("state", state)
    values["bundle"].setdefault("path", data)
    runtime = environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "sottovoce" if runtime else state
    values["agent"].setdefault("listen", f"unix:{folder / 'agent.sock'}")


def _kind(where: str, section: str, key: str) -> Any:
    kinds = get_type_hints(_SECTIONS[section])
    if key not in kinds:
        raise _unknown(where, f"{section}.{key}", key, list(kinds))
    return kinds[key]


def _convert(where: str, value: Any, kind: Any, environ: Mapping[str, str]) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if kind in (int, float, bool):
        if type(value) is not kind:
            raise _wrong_type(where, kind)
        return value
    if kind == tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise _wrong_type(where, kind)
        return tuple(value)
    if not isinstance(value, str):
        raise _wrong_type(where, kind)
    text = re.sub(
        r"\$(?:\{(\w+)\}|(\w+))",
        lambda found: _variable(where, found[1] or found[2], environ),
        value,
    )
    if kind is str:
        return text
    if "\0" in text:
        raise ConfigError(f"{where} is no path: it holds a NUL", fix="name a path")
    if not text:
        if kind is Path:
            raise ConfigError(f"{where} must not be empty", fix="name a path, or drop the line")
        return None
    if text == "~" or text.startswith("~/"):
        text = _home(environ) + text[1:]
    return Path(text)


def _variable(where: str, name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        raise ConfigError(
            f"{where} uses ${name}, which is not set", fix=f"set {name} or write the path out"
        )
    return environ[name]


def _unknown(where: str, shown: str, name: str, known: list[str]) -> ConfigError:
    near = difflib.get_close_matches(name, known, 1)
    fix = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
    return ConfigError(f"{where}: unknown setting {shown}", fix=fix, subject=shown)


def _wrong_type(where: str, kind: Any) -> ConfigError:
    return ConfigError(f"{where} has the wrong type", fix=f"give {_KINDS[kind]}", subject=where)
