"""A signature holds for one manifest, to the bit, and for one key."""

from __future__ import annotations

import contextlib
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sottovoce.core.bundle.signature import (
    SIGNATURE,
    Signature,
    is_key,
    read_key,
    show_key,
    signing_key,
)
from sottovoce.core.errors import ConfigError, DataLoss, InvalidInput, NotReady
from tests.support.leftovers import age, left_of

MANIFEST = b'{"format": "sottovoce.bundle"}\n'
# RFC 8032, section 7.1, test 3.
SECRET = bytes.fromhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
PUBLIC = bytes.fromhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")
SIGNED = bytes.fromhex(
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
)


def test_it_is_plain_ed25519() -> None:
    made = Signature.make(b"\xaf\x82", Ed25519PrivateKey.from_private_bytes(SECRET))
    assert made == Signature(PUBLIC, SIGNED)
    made.check(b"\xaf\x82")


def test_openssl_reads_it_too(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    (tmp_path / "manifest.json").write_bytes(MANIFEST)
    (tmp_path / "signature").write_bytes(Signature.make(MANIFEST, key).value)
    (tmp_path / "key.pem").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    command = "openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in manifest.json -sigfile"
    try:
        subprocess.run([*command.split(), "signature"], cwd=tmp_path, check=True)
    except FileNotFoundError:
        pytest.skip("checks our signatures by another program: install openssl")


@pytest.mark.parametrize("part", ["key", "value", "manifest"])
def test_one_altered_bit_is_found(part: str) -> None:
    made = Signature.make(MANIFEST, Ed25519PrivateKey.generate())
    made.check(MANIFEST)
    parts = {"key": made.key, "value": made.value, "manifest": MANIFEST}
    parts[part] = bytes([parts[part][0] ^ 1]) + parts[part][1:]
    with pytest.raises(DataLoss, match="does not fit"):
        Signature(parts["key"], parts["value"]).check(parts["manifest"])


def test_it_survives_the_file(tmp_path: Path) -> None:
    assert Signature.read(tmp_path) is None
    made = Signature.make(MANIFEST, Ed25519PrivateKey.generate())
    (tmp_path / SIGNATURE).write_bytes(made.to_bytes())
    assert Signature.read(tmp_path) == made
    for damaged in (made.to_bytes()[:-1], made.to_bytes() + b"0", made.key):
        (tmp_path / SIGNATURE).write_bytes(damaged)
        with pytest.raises(DataLoss, match="cut short"):
            Signature.read(tmp_path)


def test_none_is_told_from_half_a_one() -> None:
    with pytest.raises(NotReady, match="no signature"):
        Signature.of(b"", b"")
    with pytest.raises(DataLoss, match="cut short"):
        Signature.of(bytes(32), b"")


def test_keys_are_read_as_they_are_shown() -> None:
    assert read_key(show_key(PUBLIC)) == PUBLIC
    assert read_key(f" {show_key(PUBLIC)}=\n") == PUBLIC
    assert is_key(show_key(PUBLIC))
    shown = show_key(PUBLIC)
    for wrong in ("", shown[:-1], shown + "A", shown[8:], "rsa:" + shown[8:], "ed25519:Ä"):
        assert not is_key(wrong)
        with pytest.raises(InvalidInput, match="public key"):
            read_key(wrong)


def _small_order() -> set[int]:
    """Return the y coordinates of points with an order that divides 8, by the curve's formulas."""
    p = 2**255 - 19
    d = -121665 * pow(121666, -1, p) % p
    # Doubling gives y' = (y^2 + x^2) / (2 + x^2 - y^2), with x^2 = (y^2 - 1) / (d y^2 + 1). A point
    # of order 8 doubles to y = 0, so y^2 = -x^2: d y^4 + 2 y^2 - 1 = 0.
    found = {0, 1, p - 1}
    for root in (_root(1 + d), p - _root(1 + d)):
        square = (root - 1) * pow(d, -1, p) % p
        if pow(square, (p - 1) // 2, p) == 1:
            found |= {_root(square), p - _root(square)}
    return found | {y + p for y in found if y + p < 2**255}


def _root(square: int) -> int:
    p = 2**255 - 19
    root = pow(square, (p + 3) // 8, p)
    return root if root * root % p == square % p else root * pow(2, (p - 1) // 4, p) % p


def test_a_key_of_small_order_is_refused_wherever_one_is_named(tmp_path: Path) -> None:
    ys = _small_order()
    assert len(ys) == 7
    value = bytes([1]) + bytes(63)
    assert _fits(bytes(32), value)  # nobody holds a secret of this key
    for key in ((y | sign << 255).to_bytes(32, "little") for y in ys for sign in (0, 1)):
        with pytest.raises(InvalidInput, match="small order"):
            read_key(show_key(key))
        with pytest.raises(DataLoss, match="small order"):
            Signature.of(key, value)
        with pytest.raises(DataLoss, match="small order"):
            Signature(key, value).check(b"manifest")
        (tmp_path / SIGNATURE).write_bytes(key + value)
        with pytest.raises(DataLoss, match="small order"):
            Signature.read(tmp_path)


def _fits(key: bytes, value: bytes) -> bool:
    """Whether a signature made without a secret fits one of a few messages."""
    for number in range(64):
        with contextlib.suppress(InvalidSignature):
            Ed25519PublicKey.from_public_bytes(key).verify(value, f"{number}".encode())
            return True
    return False


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    file = tmp_path / "signing.key"
    made = signing_key(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert signing_key(file).private_bytes_raw() == made.private_bytes_raw()
    assert signing_key(tmp_path / "other").private_bytes_raw() != made.private_bytes_raw()
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read"):
        signing_key(file)


def test_servers_that_start_together_on_one_state_sign_with_one_key(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def start(_: int) -> bytes:
        together.wait(60)
        return signing_key(tmp_path / "signing.key").private_bytes_raw()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(8)))) == 1
    assert {file.name for file in tmp_path.iterdir()} == {"signing.key", "signing.key.pub"}


@pytest.mark.parametrize("lost", ["gone", "another's"])
def test_a_key_that_was_lost_is_not_replaced_unasked(tmp_path: Path, lost: str) -> None:
    file = tmp_path / "signing.key"
    made = signing_key(file)
    if lost == "gone":
        file.unlink()
    else:
        signing_key(tmp_path / "other")
        (tmp_path / "other").replace(file)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"is gone|does not fit") as caught:
            signing_key(file)
        assert "pull with --key" in caught.value.fix
    file.unlink(missing_ok=True)
    (tmp_path / "signing.key.pub").unlink()  # as the remedy says
    assert signing_key(file).private_bytes_raw() != made.private_bytes_raw()


@pytest.mark.parametrize("kind", ["empty", "no PEM", "another kind", "a folder"])
def test_what_is_no_key_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "signing.key"
    pem = X25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    data = {"empty": b"", "no PEM": b"key", "another kind": pem}.get(kind)
    if data is None:
        file.mkdir(0o700)
    else:
        file.touch(0o600)
        file.write_bytes(data)
    with pytest.raises(ConfigError, match="no private Ed25519 key"):
        signing_key(file)
    assert data is None or file.read_bytes() == data


def test_what_was_left_of_the_key_goes_at_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "signing.key"
    signing_key(file)
    left_of(file).hardlink_to(file)
    age(file)
    signing_key(file)
    assert {each.name for each in tmp_path.iterdir()} == {"signing.key", "signing.key.pub"}
