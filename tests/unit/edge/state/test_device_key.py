"""The key of the state: one, wherever it lies, and never in doubt."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError, DataLoss, NotReady, SottovoceError
from sottovoce.edge.state import device_key
from sottovoce.edge.state.database import DATABASE, NoiseKeys, Store
from sottovoce.edge.state.device_key import ELSEWHERE, KEY, PLACES, Seal, key_in
from tests.support.key_places import give_credential, keyring_of

SECRET, OTHER = bytes(range(32)), bytes(range(32, 64))


@pytest.fixture
def ring() -> Iterator[dict[tuple[str, str], str]]:
    held: dict[tuple[str, str], str] = {}
    with keyring_of(held):
        yield held


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "credential":
        give_credential(monkeypatch, tmp_path / "credentials", SECRET)
    if request.param == "keyring":
        request.getfixturevalue("ring")
    return str(request.param)


def _mark(state: Path, place: str) -> bytes:
    with closing(Store.open(state, key_in(place))) as store:
        NoiseKeys(store).current()  # opens
        return store.seal.mark


def _files(state: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in state.iterdir()}


def test_a_state_begins_and_goes_on_with_its_key_in_any_place(tmp_path: Path, place: str) -> None:
    state = tmp_path / "state"
    assert _mark(state, place) == _mark(state, place)
    assert {file.name for file in state.iterdir()} == {DATABASE, key_in(place).half}
    secret = key_in(place).secret(state)
    elsewhere = place != "file"
    assert (secret in b"".join(_files(state).values())) != elsewhere
    with closing(Store.open(state, key_in(place))) as store:
        assert NoiseKeys(store).rotate() == 2


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_a_lost_database_is_no_new_state_wherever_its_key_lies(
    tmp_path: Path, place: str, how: str
) -> None:
    state = tmp_path / "state"
    _mark(state, place)
    (state / DATABASE).unlink()
    if how == "empty":
        (state / DATABASE).touch()
    with pytest.raises(DataLoss, match="gone or empty"):
        _mark(state, place)


def test_a_first_start_that_was_killed_is_taken_up(tmp_path: Path, place: str) -> None:
    state = tmp_path / "state"
    if place == "keyring":
        pytest.skip("a keyring of this process is not another's")
    program = f"""
import os, pathlib
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import key_in
os.replace, pathlib.Path.rename = os.replace, lambda *_: os.kill(os.getpid(), 9)
Store.open(pathlib.Path({str(state)!r}), key_in({place!r}))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    assert not (state / key_in(place).half).exists()
    assert _mark(state, place) == _mark(state, place)


def test_another_credential_is_an_error_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, given = tmp_path / "state", tmp_path / "credentials"
    give_credential(monkeypatch, given, SECRET)
    mark, before = _mark(state, "credential"), _files(state)
    give_credential(monkeypatch, given, OTHER)
    with pytest.raises(DataLoss, match="is not the one"):
        _mark(state, "credential")
    assert _files(state) == before
    give_credential(monkeypatch, given, SECRET)
    assert _mark(state, "credential") == mark


def test_another_or_no_key_in_the_keyring_is_an_error_and_nothing_is_lost(
    tmp_path: Path, ring: dict[tuple[str, str], str]
) -> None:
    state = tmp_path / "state"
    mark, before = _mark(state, "keyring"), _files(state)
    ((entry, secret),) = ring.items()
    ring[entry] = OTHER.hex()
    with pytest.raises(DataLoss, match="is not the one"):
        _mark(state, "keyring")
    for text in ("no key", ""):
        ring[entry] = text
        with pytest.raises(DataLoss, match="no key of this") as caught:
            _mark(state, "keyring")
        assert caught.value.subject == "agent.key_place"
    del ring[entry]
    with pytest.raises(DataLoss, match="has no key") as caught:
        _mark(state, "keyring")
    assert "unlock" in caught.value.fix
    assert caught.value.subject == "agent.key_place"
    assert _files(state) == before
    assert ring == {}, "no new key is made for a state that has one"
    ring[entry] = secret
    assert _mark(state, "keyring") == mark


def test_a_key_of_a_state_that_was_moved_away_is_kept(
    tmp_path: Path, ring: dict[tuple[str, str], str]
) -> None:
    mark, held = _mark(tmp_path / "state", "keyring"), dict(ring)
    (tmp_path / "state").rename(tmp_path / "away")
    assert _mark(tmp_path / "state", "keyring") == mark
    assert ring == held


def test_a_credential_that_is_none_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(NotReady, match="not given") as caught:
        _mark(tmp_path / "state", "credential")
    assert "systemd-run" in caught.value.fix
    assert caught.value.subject == "agent.key_place"
    file = give_credential(monkeypatch, tmp_path / "credentials", b"short")
    with pytest.raises(DataLoss, match="no key of 32 bytes") as damaged:
        _mark(tmp_path / "state", "credential")
    give_credential(monkeypatch, tmp_path / "credentials", SECRET)
    file.chmod(0o444)
    with pytest.raises(ConfigError, match="other users can read the credential") as readable:
        _mark(tmp_path / "state", "credential")
    assert "LoadCredentialEncrypted" in readable.value.fix
    assert damaged.value.subject == readable.value.subject == "agent.key_place"
    assert [f for f in (tmp_path / "state").iterdir() if f.name in (KEY, ELSEWHERE)] == []


def test_a_file_beside_a_key_elsewhere_is_told_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / "state"
    mark = _mark(state, "file")
    give_credential(monkeypatch, tmp_path / "credentials", (state / KEY).read_bytes())
    with caplog.at_level(logging.WARNING):
        assert _mark(state, "credential") == mark
    assert "sotto move-key" in caplog.text
    assert (state / ELSEWHERE).read_bytes() == mark
    assert _mark(state, "file") == mark
    _mark(state, "credential")
    (state / KEY).write_bytes(OTHER)
    with pytest.raises(ConfigError, match="another key than the one in use") as caught:
        _mark(state, "credential")
    assert caught.value.subject == str(state / KEY)
    assert (state / KEY).read_bytes() == OTHER


def test_a_file_that_was_only_overwritten_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    give_credential(monkeypatch, tmp_path / "credentials", SECRET)
    mark = _mark(state, "credential")
    (state / KEY).write_bytes(bytes(32))
    assert _mark(state, "credential") == mark
    assert {file.name for file in state.iterdir()} == {DATABASE, ELSEWHERE}


def test_a_key_in_a_file_is_not_to_be_brought_back_to_a_keyring(
    tmp_path: Path, ring: dict[tuple[str, str], str]
) -> None:
    state = tmp_path / "state"
    mark = _mark(state, "file")
    with pytest.raises(DataLoss, match="has no key") as caught:
        _mark(state, "keyring")
    assert "set agent.key_place back to 'file'" in caught.value.fix
    assert (_mark(state, "file"), ring) == (mark, {})


def test_a_key_that_lies_elsewhere_is_not_looked_for_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    give_credential(monkeypatch, tmp_path / "credentials", SECRET)
    _mark(state, "credential")
    with pytest.raises(ConfigError, match="lies elsewhere") as caught:
        _mark(state, "file")
    assert "key_place" in caught.value.fix
    assert caught.value.subject == "agent.key_place"
    assert not (state / KEY).exists()


def test_no_place_takes_a_key_where_another_lies(tmp_path: Path, place: str) -> None:
    state = tmp_path / "state"
    _mark(state, place)
    before = key_in(place).secret(state)
    with pytest.raises(ConfigError, match="another key") as caught:
        key_in(place).put(state, b"\1" * 32)
    assert caught.value.subject == "agent.key_place"
    key_in(place).put(state, before)
    assert key_in(place).secret(state) == before


@pytest.mark.parametrize(
    ("backend", "raised"), [("fail", NotReady), ("null", ConfigError), ("none", ConfigError)]
)
def test_a_keyring_that_cannot_be_used_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, raised: type[SottovoceError]
) -> None:
    """As on a machine without a desktop session; as the owner switched it off; and none at all."""
    if backend == "none":

        def missing(name: str) -> None:
            raise ModuleNotFoundError(name)

        monkeypatch.setattr(device_key.importlib, "import_module", missing)
    else:
        keyring = pytest.importorskip("keyring")
        module = pytest.importorskip(f"keyring.backends.{backend}")
        before = keyring.get_keyring()
        monkeypatch.setattr(keyring.core, "_keyring_backend", before)  # put back afterwards
        keyring.set_keyring(module.Keyring())
    with pytest.raises(raised) as caught:
        _mark(tmp_path / "state", "keyring")
    assert caught.value.fix
    assert caught.value.subject == "agent.key_place"


def test_a_key_is_brought_to_a_file_that_only_its_user_reads(tmp_path: Path) -> None:
    key_in("file").put(tmp_path, SECRET)
    assert _files(tmp_path) == {KEY: SECRET}
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600


def test_a_key_that_another_process_brings_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_in("file").put(tmp_path, SECRET)
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.name != KEY and exists(path))
    with pytest.raises(ConfigError, match="holds another key"):
        key_in("file").put(tmp_path, OTHER)
    key_in("file").put(tmp_path, SECRET)
    assert _files(tmp_path) == {KEY: SECRET}


def test_a_removed_file_is_overwritten_first(tmp_path: Path) -> None:
    key_in("file").put(tmp_path, SECRET)
    (tmp_path / "link").hardlink_to(tmp_path / KEY)
    assert key_in("file").remove(tmp_path) == ""
    assert _files(tmp_path) == {"link": bytes(32)}


def test_a_file_that_cannot_be_removed_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        key_in("file").remove(tmp_path / "file")
    assert caught.value.subject == str(tmp_path / "file" / KEY)
    with pytest.raises(ConfigError) as caught:
        key_in("file").settle(tmp_path / "file", Seal(SECRET))
    assert caught.value.subject == str(tmp_path / "file")


def test_a_key_lies_in_the_keyring_under_its_service_and_folder(
    tmp_path: Path, ring: dict[tuple[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (Path("one"), Path("other")):
        key_in("keyring").put(folder, SECRET)
    one, other = (("sottovoce", str(tmp_path / name)) for name in ("one", "other"))
    assert ring == {one: SECRET.hex(), other: SECRET.hex()}
    assert key_in("keyring").remove(Path("one")) == ""
    assert ring == {other: SECRET.hex()}
    with pytest.raises(NotReady, match=r"\(PasswordDeleteError\)"):
        key_in("keyring").remove(Path("one"))


def test_a_place_is_described(tmp_path: Path) -> None:
    told = {place: key_in(place).told(tmp_path) for place in PLACES}
    assert told == {
        "file": str(tmp_path / KEY),
        "credential": "in the credential sottovoce.key",
        "keyring": "in the keyring",
    }


def test_a_credential_that_root_has_not_sealed_yet_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(NotReady, match="no such credential yet") as caught:
        key_in("credential").put(tmp_path, SECRET)
    assert f"--name=sottovoce.key {tmp_path / KEY}" in caught.value.fix
    assert caught.value.subject == "agent.key_place"
    assert "/etc/credstore.encrypted/sottovoce.key" in key_in("credential").remove(tmp_path)


def test_a_credential_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = give_credential(monkeypatch, tmp_path / "credentials", SECRET)
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError) as caught:
        key_in("credential").secret(tmp_path)
    assert caught.value.subject == str(file)


def test_an_overwritten_file_that_cannot_be_deleted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_credential(monkeypatch, tmp_path / "credentials", SECRET)
    (tmp_path / KEY).write_bytes(bytes(32))
    (tmp_path / ELSEWHERE).write_bytes(Seal(SECRET).mark)

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "refused", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ConfigError) as caught:
        key_in("credential").settle(tmp_path, Seal(SECRET))
    assert caught.value.subject == str(tmp_path / KEY)
