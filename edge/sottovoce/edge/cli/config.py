"""``sotto config``, ``words``, ``move-key`` and ``rotate-key``: the owner's settings.

The key of the state moves without a moment of loss. It is copied first, and then the setting is
changed. A key is removed from its old place only after the copy in the new place has opened the
database. After an interruption the key is in both places, and the same command continues.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from sottovoce.core.errors import ConfigError, DataLoss, SottovoceError
from sottovoce.core.platform.console import Command, print_json
from sottovoce.core.platform.files import as_owner_of, disk, in_place_of
from sottovoce.edge import config as settings
from sottovoce.edge.cli.common import load_config, not_as_root, open_state, say
from sottovoce.edge.config import Config
from sottovoce.edge.state.database import NoiseKeys, Store, only_one
from sottovoce.edge.state.device_key import PLACES, key_in
from sottovoce.edge.state.words import Words

_OF_LEVELS: Final = (
    "privacy.largest_eta",
    "privacy.least_policy",
    "privacy.level",
    "privacy.mechanism",
    "privacy.policy",
)


@click.group("config")
def command() -> None:
    """List, get or set the settings of this device."""


@command.command("list", cls=Command)
def list_(as_json: bool) -> None:
    """List all settings in force, with environment variables applied."""
    config = load_config()
    values = _values(config)
    if as_json:
        print_json({"file": str(config.source or ""), "settings": values})
        return
    click.echo(f"# {config.source or 'defaults; no file'}")
    for name, value in values.items():
        click.echo(f"{name} = {json.dumps(value, ensure_ascii=False)}")


@command.command("get", cls=Command)
@click.argument("name")
def get(name: str, as_json: bool) -> None:
    """Print the setting NAME, for example privacy.level."""
    values = _values(load_config())
    _known(name, values)
    value = values[name]
    say(
        {"name": name, "value": value},
        "" if value is None else ",".join(value) if isinstance(value, tuple) else value,
    )


@command.command("set", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("value")
@click.argument("more", metavar="[NAME VALUE]...", nargs=-1)
@click.pass_context
def set_(ctx: click.Context, name: str, value: str, more: tuple[str, ...], as_json: bool) -> None:
    """Write VALUE for the setting NAME into the configuration file; comments stay.

    Set settings that need each other in one call. Refuses values that the agent would refuse, and
    files and groups that this machine does not have. A running agent applies the settings after a
    restart.
    """
    if len(more) % 2:
        ctx.fail(f"{more[-1]!r} has no value")
    values = {name: value} | dict(zip(more[::2], more[1::2], strict=True))
    kinds = settings.kinds()
    for each in values:
        _known(each, kinds)
    written = {each: _value(each, text, kinds[each]) for each, text in values.items()}
    file = settings.found(ctx.obj) or settings.usual()
    with as_owner_of(file):
        _write(file, written, lambda config: _check_here(config, written))
    for each in values:
        if as_json:
            print_json({"file": str(file), "name": each})
            continue
        click.echo(f"{each} is written to {file}")
        if (overriding := settings.variable(each)) in os.environ:
            click.echo(f"{overriding} is set, and overrides it", err=True)


def write(config: Config, values: Mapping[str, Any]) -> Path:
    """Write all settings into the configuration file, or none.

    Returns:
        The file.

    Raises:
        ConfigError: the settings contradict each other, or the file cannot be changed.
    """
    file = place(config)
    with as_owner_of(file):
        _write(file, values)
    return file


def place(config: Config) -> Path:
    """Return the configuration file that settings are written into."""
    return config.source or settings.usual()


def _write(
    file: Path,
    values: Mapping[str, Any],
    check: Callable[[Config], None] = lambda config: None,
) -> None:
    # A variable that overrides a written value would hide an error in it.
    overriding = {settings.variable(name) for name in values}
    environ = {name: text for name, text in os.environ.items() if name not in overriding}
    with disk(file):
        text = file.read_text(encoding="utf-8") if file.exists() else ""
    for name, value in values.items():
        text = changed(text, name, value)
    with disk(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with disk(file), in_place_of(file) as aside:
        with _new(aside, like=file) as out:
            out.write(text.encode())
        try:
            check(settings.load(aside, environ))
        except ConfigError as error:
            problem = error.problem.replace(str(aside), str(file))
            raise ConfigError(problem, fix=error.fix, subject=error.subject) from error


def _value(name: str, text: str, kind: Any) -> Any:
    """Return the value of a setting as it is written into the file."""
    value = settings.parsed(name, text, kind)
    if isinstance(value, int | float):
        return value
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name} is not UTF-8", fix="type it as UTF-8", subject=name) from error
    if isinstance(value, tuple):
        return [*value]
    if isinstance(value, Path) and not text.startswith(("~", "$")):
        return str(value.absolute())  # a daemon has another working directory
    return text


def _check_here(config: Config, names: Iterable[str]) -> None:
    """Refuse settings that name things missing on this machine."""
    values, kinds = _values(config), settings.kinds()
    for name in names:
        value, kind = values[name], kinds[name]
        if not value or (name == "cloud.token_file" and not os.path.exists(value)):
            continue  # `sotto enroll` writes the token file
        if kind is Path:
            _check_folder(name, Path(value))
        elif kind == Path | None:
            _check_file(name, Path(value))
        elif name == "agent.group":
            from sottovoce.edge.server import number_of  # loads numpy

            number_of(value)
        elif name.startswith("tagger.") and config.tagger.backend == "spacy":
            from sottovoce.core.text.tagger import SpacyTagger  # optional

            SpacyTagger(config.tagger.pipeline)
        elif name in _OF_LEVELS:
            _check_level(name, config)


def _check_level(name: str, config: Config) -> None:
    from sottovoce.core.bundle.manifest import MANIFEST, Manifest  # imports NumPy, as the next
    from sottovoce.edge.bundle import in_use
    from sottovoce.edge.tasks.doctor import default_level

    try:
        manifest = Manifest.from_json((in_use(config.bundle).folder / MANIFEST).read_bytes())
    except (OSError, DataLoss):
        return  # unknown without a bundle; `sotto doctor` reports a faulty bundle
    try:
        default_level(config.privacy, manifest)
    except SottovoceError as error:
        raise ConfigError(
            f"{name}: no text could be privatised by default: {error.problem}",
            fix=f"{error.fix}, in the same command if both are to change",
            subject=name,
        ) from error


def _check_folder(name: str, folder: Path) -> None:
    there = next(each for each in (folder, *folder.parents) if os.path.exists(each))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        what = "nothing may be written to it" if there.is_dir() else "it is no folder"
        raise ConfigError(
            f"{name} cannot be {str(folder)!r}, because of {there}: {what}",
            fix="name a folder of yours",
            subject=name,
        )


def _check_file(name: str, file: Path) -> None:
    import ssl

    try:
        file.open("rb").close()
        if name.endswith("ca_file") or name == "agent.tls_client_ca":
            ssl.create_default_context(cafile=file)
    except OSError as error:
        none = isinstance(error, ssl.SSLError)
        why = "it holds no certificate" if none else error.strerror
        raise ConfigError(
            f"{name} cannot be {str(file)!r}: {why}",
            fix="name a PEM file" if none else "put the file there first, or name another",
            subject=name,
        ) from error


def _new(aside: Path, *, like: Path) -> BinaryIO:
    """Open a new file to write, with the owner and mode of `like`, or mode 0600.

    An agent that runs as another user must still be able to read its settings.
    """
    was = like.stat() if like.exists() else None
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    if was is not None:
        with suppress(PermissionError):  # only root may; else the file belongs to the current user
            os.fchown(descriptor, was.st_uid, was.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(was.st_mode))
    return os.fdopen(descriptor, "wb")


def changed(text: str, name: str, value: Any) -> str:
    """Return a TOML document with one setting changed, comments and layout kept.

    Args:
        name: "section.key".
        value: of a type that TOML has.

    Raises:
        ConfigError: the document is not TOML, or has a value where the section should be.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    section, _, key = name.partition(".")
    try:
        document = tomlkit.parse(text)
        table: Any = document.setdefault(section, tomlkit.table())
        table[key] = value
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError) as error:
        raise ConfigError(f"{name} cannot be written: {error}", subject=name) from error


def _known(name: str, settings: Collection[str]) -> None:
    """Refuse a name that is not a setting, and suggest the nearest."""
    if name in settings:
        return
    same = [each for each in settings if each.endswith(f".{name}")]
    near = same or difflib.get_close_matches(name, settings, 1)
    raise ConfigError(
        f"there is no setting {name!r}",
        fix=f"did you mean {near[0]!r}?" if near else "`sotto config list` shows all",
        subject=name,
    )


def _values(config: Config) -> dict[str, Any]:
    """Return every setting by name; paths as text."""
    return {
        f"{section.name}.{key}": str(value) if isinstance(value, Path) else value
        for section in dataclasses.fields(config)
        if section.name != "source"
        for key, value in dataclasses.asdict(getattr(config, section.name)).items()
    }


@click.group("words")
def words_command() -> None:
    """Say which words never leave, and which pass under the policy `personal`.

    A word may be a phrase. Case does not count. Hidden words win over allowed words, and are hidden
    under every policy. A running agent applies changes with the next text. The lists are sealed in
    the agent's state. `hide.words` and `hide.allow` in the configuration count as well.
    """


@words_command.command("allow", cls=Command)
@click.argument("words", nargs=-1, required=True)
def allow_words(words: tuple[str, ...], as_json: bool) -> None:
    """Let WORDS pass under the policy `personal`. Other policies do not read this list."""
    config = load_config()
    _change(config, "allow", allow=words)
    if config.chat.policy != "personal":
        click.echo(
            f"conversations use the policy {config.chat.policy}, which lets no allowed word pass; "
            "choose personal with `sotto config set chat.policy personal`",
            err=True,
        )
    both = {word.casefold() for word in words} & {word.casefold() for word in config.hide.words}
    if both:
        click.echo(f"{len(both)} of them stay hidden by hide.words in the configuration", err=True)


@words_command.command("hide", cls=Command)
@click.argument("words", nargs=-1, required=True)
def hide_words(words: tuple[str, ...], as_json: bool) -> None:
    """Never let WORDS pass, under any policy."""
    _change(load_config(), "hide", hide=words)


@words_command.command("rm", cls=Command)
@click.argument("words", nargs=-1, required=True)
def remove_words(words: tuple[str, ...], as_json: bool) -> None:
    """Take WORDS out of both lists."""
    _change(load_config(), "rm", without=words)


@words_command.command("list", cls=Command)
def list_words(as_json: bool) -> None:
    """Show both lists and the named patterns, with those in the configuration."""
    config = load_config()
    with open_state(config) as store:
        lists = Words(store, config.hide.hiding).lists()
    told = {
        "allow": [*config.hide.allow, *lists.allow],
        "hide": [*config.hide.words, *lists.hide],
        "patterns": [*config.hide.patterns],
    }
    if as_json:
        print_json(told)
        return
    if not any(told.values()):
        click.echo("no words yet: `sotto words hide WORD` adds one", err=True)
    for name, each in zip(("allow", "hide", "pattern"), told.values(), strict=True):
        click.echo("".join(f"{name}\t{word}\n" for word in each), nl=False)


_TOLD = {"allow": "allowed", "hide": "hidden", "rm": "taken out"}


def _change(config: Config, action: str, **changed: tuple[str, ...]) -> None:
    with open_state(config) as store:
        Words(store, config.hide.hiding).change(**changed)
    (given,) = changed.values()
    say({action: [*given]}, f"{len(given)} {_TOLD[action]}")


_SETTING = "agent.key_place"


@click.command("move-key", cls=Command)
@click.argument("there", metavar="PLACE", type=click.Choice(list(PLACES)))
def move_key_command(there: str, as_json: bool) -> None:
    """Move the key that seals this device's state to PLACE.

    \b
    file        agent.key in the state folder
    credential  sottovoce.key, which systemd hands to the service alone; root
                makes it first, and this command says how if it is missing
    keyring     the keyring of your desktop session; needs
                sottovoce-edge[keyring] and a desktop session

    Stop the agent first. The command copies the key and changes the setting
    agent.key_place. Once the key has opened the state from its new place, the
    command removes it from the old place. If it is interrupted, run it again.
    Only root can remove a credential that is no longer used.
    """
    config = load_config()
    not_as_root(config)
    state = config.agent.state
    if config.agent.key_place != there:
        copy_key(state, config.agent.key_place, there)
        by_hand = f"set {_SETTING} to {there!r} there as whoever may; then run this again"
        try:
            write(config, {_SETTING: there})
        except ConfigError as error:
            raise ConfigError(
                f"the key is in both places now, and {place(config)} cannot be changed",
                fix=by_hand,
                subject=_SETTING,
            ) from error
        if load_config().agent.key_place != there:
            raise ConfigError(
                "the key is in both places now, and SOTTO_AGENT_KEY_PLACE overrides the setting",
                fix=by_hand.replace(" there ", " in the environment "),
                subject=_SETTING,
            )
    lay = leave_others(state, there)
    if as_json:
        removed = [name for name, left in lay.items() if not left]
        print_json({"place": there, "removed": removed, "left": [*filter(None, lay.values())]})
    else:
        for line in (f"the key of {state} lies here: {there}", *filter(None, lay.values())):
            click.echo(line)


@click.command("rotate-key", cls=Command)
def rotate_key_command(as_json: bool) -> None:
    """Replace the secret key of the noise and destroy the old key.

    Afterwards the noise in earlier releases cannot be removed any more, not even by this device.
    A text that was released before gets fresh noise when it is released again, and is charged
    again: both releases together reveal more about the text than either alone. A running agent uses
    the new key from the next text on. The key of the state, which seals this key, stays (`sotto
    move-key`). If that key is a credential of the service, this command says how to run with it.
    """
    with open_state(load_config()) as store:
        epoch = NoiseKeys(store).rotate()
    say({"epoch": epoch}, f"noise is now drawn from key {epoch}; the one before is destroyed")


def copy_key(state: Path, here: str, there: str) -> None:
    """Copy the key, so that it is in both places.

    Args:
        state: of no running agent.

    Raises:
        NotReady: an agent runs, or a place cannot be asked.
        ConfigError: another key is in the other place.
        DataLoss: the key in the present place is not the key of the state.
    """
    with only_one(state):
        Store.open(state, key_in(here)).close()
        key_in(there).put(state, key_in(here).secret(state))


def leave_others(state: Path, there: str) -> dict[str, str]:
    """Remove the key from all other places, once it has opened the state from there.

    Returns:
        Other places that held the key, each with the steps left to another person; the text is
            empty where the key was removed.

    Raises:
        ConfigError: the key cannot be removed from another place. See `Store.open`; then nothing is
            removed.
    """
    lay = {}
    with only_one(state):
        Store.open(state, key_in(there)).close()
        secret = key_in(there).secret(state)
        for name in PLACES:
            other = key_in(name)
            held = None
            with suppress(SottovoceError):  # no key there, or no such place
                held = other.secret(state) if name != there else None
            if held == secret:
                try:
                    lay[name] = other.remove(state)
                except SottovoceError as error:
                    raise ConfigError(
                        f"the key lies here now: {there}; and still here: {other.told(state)}, "
                        f"where it could not be removed ({error.problem})",
                        fix=f"mend that, then run `sotto move-key {there}` again",
                        subject="agent.key_place",
                    ) from error
    return lay
