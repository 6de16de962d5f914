"""Sealed data opens only with its key and in its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError, DataLoss
from sottovoce.edge.state.device_key import Seal


def test_sealed_bytes_come_back() -> None:
    seal = Seal(bytes(32))
    sealed = seal.seal(b"clear words", b"here")
    assert b"clear" not in sealed
    assert seal.unseal(sealed, b"here") == b"clear words"


def test_what_was_sealed_once_opens_for_ever() -> None:
    """Device state outlives releases, so the key derivation never changes."""
    seal = Seal(bytes(range(32)))
    sealed = bytes.fromhex(
        "b4f3bcc047d47135a5b159746b5cd3621c69e2ec9c9c015195e673bf853488a431f5845a2c7bd9"
    )
    assert seal.unseal(sealed, b"here") == b"clear words"
    name = "fa5f6d730b15703f0bbe6e4a932961c8e8f9fcec9f32e0f06a666125f4ec738d"
    assert seal.name(b"ab", b"c").hex() == name
    mark = "48d45ff19d1d6acddbacb8f49cf8f5184c6319e29b7b1b1a9f33acffe468589a"
    assert seal.mark.hex() == mark


def test_equal_data_seal_differently() -> None:
    seal = Seal(bytes(32))
    assert seal.seal(b"x", b"") != seal.seal(b"x", b"")


def test_other_place_other_key_and_altered_bytes_are_refused() -> None:
    seal = Seal(bytes(32))
    sealed = seal.seal(b"x" * 40, b"here")
    attempts = [
        (seal, sealed, b"there"),
        (Seal(b"\1" * 32), sealed, b"here"),
        (seal, sealed[:-1] + bytes([sealed[-1] ^ 1]), b"here"),
        (seal, sealed[:5], b"here"),
    ]
    for opener, data, place in attempts:
        with pytest.raises(DataLoss) as caught:
            opener.unseal(data, place)
        assert caught.value.subject == "state"


def test_names_depend_on_key_and_on_where_parts_end() -> None:
    seal = Seal(bytes(32))
    assert seal.name(b"ab", b"c") == seal.name(b"ab", b"c")
    assert seal.name(b"ab", b"c") != seal.name(b"a", b"bc")
    assert seal.name(b"ab", b"c") != Seal(b"\1" * 32).name(b"ab", b"c")


def test_a_new_key_is_private_and_unlike_any_other(tmp_path: Path) -> None:
    path = tmp_path / "key"
    before = os.umask(0)
    try:
        made = Seal.make(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert Seal.read(path).mark == made.mark
    assert Seal.make(path).mark == Seal.read(path).mark != made.mark


def test_every_bit_of_a_key_shows_in_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "key"
    marks = {Seal.make(path).mark}
    sound = path.read_bytes()
    for bit in range(8 * len(sound)):
        flipped = bytearray(sound)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        marks.add(Seal.read(path).mark)
    assert len(marks) == 1 + 8 * len(sound)


def test_a_lost_or_damaged_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(DataLoss, match="is gone") as lost:
        Seal.read(path)
    path.write_bytes(b"short")
    path.chmod(0o600)
    with pytest.raises(DataLoss, match="damaged") as damaged:
        Seal.read(path)
    assert lost.value.subject == damaged.value.subject == str(path)


@pytest.mark.parametrize("use", [Seal.read, Seal.make])
def test_a_place_that_can_hold_no_key_is_named(tmp_path: Path, use: Callable[[Path], Seal]) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "key"
    with pytest.raises(ConfigError) as caught:
        use(path)
    assert caught.value.subject == str(path)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    Seal.make(path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"other users can read.*chmod 600") as caught:
        Seal.read(path)
    assert caught.value.subject == str(path)
