"""`sotto config`: one setting changed, the rest of the file as its owner wrote it."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError
from sottovoce.edge.cli.config import changed
from sottovoce.edge.config import kinds
from tests.support.certificates import Certificate

from .conftest import Device

FILE = """\
# mine
[privacy]
level = "light"  # for now
# policy = "names"

[cloud]
address = "a.example.org"
"""


@pytest.fixture
def device(new_device: Callable[..., Device]) -> Device:
    return new_device()


def _file(device: Device) -> Path:
    return device.folder / "home/.config/sottovoce/agent.toml"


def test_a_setting_is_written_read_and_listed(device: Device) -> None:
    assert device.sotto("config", "get", "privacy.level").stdout == "balanced\n"
    device.sotto("config", "set", "privacy.level", "attack:0.3")
    assert device.sotto("config", "get", "privacy.level").stdout == "attack:0.3\n"
    device.sotto("config", "set", "privacy.ledger_limit", "500")
    authority = device.folder / 'a "b"' / "ca.pem"
    authority.parent.mkdir()
    authority.write_bytes(Certificate.make().certificate)
    device.sotto("config", "set", "cloud.ca_file", str(authority))
    (told,) = device.json("config", "list")
    assert told["file"] == str(_file(device))
    assert told["settings"]["privacy.ledger_limit"] == 500.0
    assert told["settings"]["cloud.ca_file"] == str(authority)
    assert _file(device).stat().st_mode & 0o077 == 0
    assert 'privacy.level = "attack:0.3"' in device.sotto("config", "list").stdout


INVALID = {
    "agent.listen": ("unix:", "127.0.0.1:99999", "unix:" + "x" * 200),
    "agent.state": ("", "/dev/null", "/dev/null/state"),
    "agent.tls_cert": ("/nowhere/agent.pem", "/"),
    "agent.tls_key": ("/nowhere/agent.key", "/"),
    "agent.tls_client_ca": ("/nowhere/ca.pem", "/dev/null"),
    "agent.trace": ("nonsense", "http://collector.example.org:4317", "http://[x"),
    "agent.apps": ("yes",),
    "agent.group": ("no such group",),
    "agent.key_place": ("pocket",),
    "bundle.path": ("", "/dev/null"),
    "bundle.backbone": ("two\nlines",),
    "bundle.key": ("ssh-rsa AAAA",),
    "bundle.accept_unchecked": ("maybe",),
    "bundle.language": ("", "English", "e"),
    **{
        f"hide.{kind}": ("maybe",)
        for kind in (
            *("persons", "places", "organisations", "contacts", "numbers", "secrets", "dates"),
            *("origins", "unlisted", "facts"),
        )
    },
    "hide.words": ("...", "x" * 300),
    "hide.allow": ("...",),
    "hide.patterns": ("staff", "staff=(a+)+b", "staff=("),
    "privacy.level": ("medium", "", "attack:0.30", "attack:3", "attak:0.3", "attack:"),
    "privacy.mechanism": ("pct2t.v9", ""),
    "privacy.policy": ("nonsense", "", "default"),
    "privacy.largest_eta": ("0", "-1", "nan", "much"),
    "privacy.least_policy": ("nonsense", ""),
    "privacy.finder": ("large", ""),
    "privacy.unsure_below": ("1.5", "-0.1", "nan"),
    "privacy.ledger_limit": ("-1", "inf", "nan", "much"),
    "privacy.warn_after": ("-1", "1.5"),
    "privacy.plain_tokens": ("-1", "100000", "some"),
    "cloud.address": ("https://cloud.example.org", "cloud:port", "a b", "::1", "user@host"),
    "cloud.tenant": ("Ann", "a b", "-a", "a\nb"),
    "cloud.token_file": ("/", "$NOWHERE/token"),
    "cloud.ca_file": ("/nowhere/ca.pem", "/dev/null", "/"),
    "cloud.certificate": ("/nowhere/device.pem", "/"),
    "cloud.certificate_key": ("/nowhere/device.key", "/"),
    "chat.policy": ("nonsense", ""),
    "chat.upstream": ("llm.example.org", "http://llm.example.org/v1", "https://a b", "ftp://x"),
    "chat.model": ("two\nlines",),
    "chat.key_file": ("/nowhere/key", "/"),
    "chat.ca_file": ("/nowhere/ca.pem", "/dev/null"),
    "chat.ask_first": ("perhaps", ""),
    "chat.trusted_tools": ("a b", "x" * 65),
    "chat.keep_days": ("-1", "4000"),
    "openai.address": ("0.0.0.0:8472", "127.0.0.1:x", "nonsense"),
    "openai.drop_unknown": ("perhaps", ""),
    "predict.where": ("home", ""),
    "predict.corrections": ("-1", "100001"),
    "tagger.backend": ("spacey", ""),
    "tagger.pipeline": ("two\nlines",),
    "ui.address": ("", "192.0.2.1:80"),
    "ui.record": ("perhaps", ""),
}
"""Of every setting, values that the agent could not go by."""


def test_every_setting_has_invalid_values_here() -> None:
    assert INVALID.keys() == kinds().keys()


@pytest.mark.parametrize("name", sorted(INVALID))
def test_an_invalid_value_is_refused_and_changes_nothing(device: Device, name: str) -> None:
    _file(device).parent.mkdir(parents=True)
    _file(device).write_text(FILE)
    for value in INVALID[name]:
        told = device.sotto("config", "set", "--", name, value, code=78).stderr
        assert name in told
        assert "fix:" in told
    assert _file(device).read_text() == FILE
    assert list(_file(device).parent.iterdir()) == [_file(device)]


def test_a_variable_that_overrides_does_not_hide_a_wrong_value(
    new_device: Callable[..., Device],
) -> None:
    device = new_device(SOTTO_PRIVACY_LEVEL="strong")
    assert "'medium'" in device.sotto("config", "set", "privacy.level", "medium", code=78).stderr
    assert "overrides" in device.sotto("config", "set", "privacy.level", "light").stderr


def test_a_file_that_no_command_can_read_is_mended(device: Device) -> None:
    _file(device).parent.mkdir(parents=True)
    _file(device).write_text('[privacy]\nlevel = "medium"\n[predict]\nwhere = "home"\n')
    told = device.sotto("status", code=78).stderr
    assert "'medium'" in told
    device.sotto("config", "set", "privacy.level", "light", "predict.where", "auto")
    assert device.sotto("config", "get", "privacy.level").stdout == "light\n"


def test_settings_that_need_each_other_are_set_together(device: Device) -> None:
    certificate, key = Certificate.make().write(device.folder)
    alone = ("config", "set", "agent.tls_cert", str(certificate))
    assert "together" in device.sotto(*alone, code=78).stderr
    device.sotto(*alone, "agent.tls_key", str(key))
    assert device.config.agent.tls_key == key
    assert "has no value" in device.sotto(*alone, "agent.tls_key", code=2).stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("privacy.level", "attack:0.99"),
        ("privacy.largest_eta", "0.001"),
        ("privacy.least_policy", "all"),
    ],
)
def test_what_would_refuse_every_text_is_refused(
    new_device: Callable[..., Device], tagged_bundle: Path, name: str, value: str
) -> None:
    device = new_device(tagged_bundle)
    told = device.sotto("config", "set", name, value, code=78).stderr
    assert name in told
    assert not _file(device).exists()


def test_a_relative_path_means_the_folder_of_the_command(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(device.folder)
    device.sotto("config", "set", "bundle.path", "here")
    device.sotto("config", "set", "cloud.token_file", "~/token")
    assert device.config.bundle.path == device.folder / "here"
    assert '"~/token"' in _file(device).read_text()


def test_a_changed_file_stays_whose_it_was(device: Device) -> None:
    file = _file(device)
    file.parent.mkdir(parents=True)
    file.write_text(FILE)
    file.chmod(0o640)
    owner = (54321, 54322) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owner)
    device.sotto("config", "set", "privacy.level", "strong")
    now = file.stat()
    assert "strong" in file.read_text()
    assert (now.st_uid, now.st_gid, now.st_mode & 0o777) == (*owner, 0o640)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes what is another's: run it as root")
def test_root_follows_no_link_in_a_folder_of_anothers(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = device.folder / "of root"
    guarded.write_text("before\n")
    guarded.chmod(0o600)
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders let nobody else in
        file = Path(name, "agent.toml")
        file.write_text(FILE)
        for path in (file.parent, file):
            path.chmod(0o750)
            os.chown(path, 54321, 54322)
        link = file.with_name(f".agent.toml.sotto-{'0' * 16}")
        link.symlink_to(guarded)
        asked = ("--config", str(file), "config", "set", "privacy.level", "strong")
        assert "fix:" in device.sotto(*asked, code=78).stderr
        link.unlink(missing_ok=True)
        device.sotto(*asked)
        assert (os.geteuid(), file.stat().st_uid) == (0, 54321)
        file.unlink()
        file.symlink_to(guarded)
        device.sotto(*asked, code=78)
    assert guarded.read_text() == "before\n"
    assert (guarded.stat().st_uid, guarded.stat().st_mode & 0o777) == (0, 0o600)


def test_a_list_is_set_and_shown_with_commas(device: Device) -> None:
    device.sotto("config", "set", "chat.trusted_tools", "search, send-mail")
    assert 'trusted_tools = ["search", "send-mail"]' in _file(device).read_text()
    assert device.sotto("config", "get", "chat.trusted_tools").stdout == "search,send-mail\n"
    assert device.json("config", "get", "chat.trusted_tools")[0]["value"] == ["search", "send-mail"]
    assert (
        "names of functions"
        in device.sotto("config", "set", "chat.trusted_tools", "search mail", code=78).stderr
    )
    device.sotto("config", "set", "chat.trusted_tools", "")
    assert device.sotto("config", "get", "chat.trusted_tools").stdout == "\n"


def test_what_would_not_load_is_not_written(device: Device) -> None:
    _file(device).parent.mkdir(parents=True)
    _file(device).write_text(FILE)
    for name, value, said in (
        ("privacy.levle", "light", "did you mean 'privacy.level'"),
        ("privcy.level", "light", "did you mean 'privacy.level'"),
        ("privacy.policy", "none", "privacy.policy"),
        ("level", "light", "did you mean 'privacy.level'"),
        ("privacy.ledger_limit", "-1", "cannot be -1.0"),
        ("privacy.ledger_limit", "much", "give a number"),
        ("privacy.ledger_limit", "1\n[chat]", "give a number"),
        ("cloud.token_file", "\udcff", "not UTF-8"),
        ("cloud.tenant", 'a"\n[chat]', "small letters"),
    ):
        told = device.sotto("config", "set", name, value, code=78).stderr
        assert said in told
        assert "agent.toml." not in told  # what was written aside is nobody's
    assert _file(device).read_text() == FILE
    assert list(_file(device).parent.iterdir()) == [_file(device)]
    assert "did you mean" in device.sotto("config", "get", "privacy.levle", code=78).stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("privacy.level", "strong"),
        ("privacy.policy", "all"),
        ("cloud.tenant", 'an"n'),
        ("chat.keep_days", 7),
        ("hide.allow", ["Rose", "ü"]),
    ],
)
def test_the_rest_of_the_file_stays(name: str, value: object) -> None:
    after = changed(FILE, name, value)
    section, key = name.split(".")
    wanted = tomllib.loads(FILE)
    wanted.setdefault(section, {})[key] = value
    assert tomllib.loads(after) == wanted
    assert after.startswith("# mine\n[privacy]\n")
    assert '# policy = "names"' in after
    assert "# for now" in after
    assert changed(after, name, value) == after
    assert tomllib.loads(changed("", name, value)) == {section: {key: wanted[section][key]}}


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ('level="light"# a', 'level="strong"# a'),
        ('  level = "a#b" # c "d" # e', '  level = "strong" # c "d" # e'),
        ("level = 'a' \t# ü", 'level = "strong" \t# ü'),
        ('level = "light"', 'level = "strong"'),
    ],
)
def test_a_comment_behind_a_value_stays(line: str, after: str) -> None:
    assert changed(f"[privacy]\n{line}\n", "privacy.level", "strong") == f"[privacy]\n{after}\n"


def test_a_comment_may_hold_what_other_programs_take_for_the_end_of_a_line() -> None:
    text = "# one\u2028two \x85 three\n[privacy] # \u2029\n"
    assert changed(text, "privacy.level", "strong") == f'{text}level = "strong"\n'


@pytest.mark.parametrize(
    "text",
    [
        'privacy = { level = "light", policy = "all" }\n',
        'privacy.level = "light"\nprivacy.policy = "all"\n',
    ],
)
def test_other_layouts_of_a_section_are_changed_in_place(text: str) -> None:
    assert changed(text, "privacy.level", "strong") == text.replace("light", "strong")


@pytest.mark.parametrize("text", ["privacy = 3\n", "[[privacy]]\n", "[privacy\n"])
def test_a_file_without_room_for_the_setting_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        changed(text, "privacy.level", "strong")
