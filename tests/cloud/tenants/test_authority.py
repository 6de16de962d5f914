"""The authority for devices: made once, refused by name when damaged, and signs keys alone."""

from __future__ import annotations

import base64
import datetime
import shutil
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sottovoce.cloud.tenants import authority as module
from sottovoce.cloud.tenants.authority import (
    AUTHORITY,
    AUTHORITY_KEY,
    LARGEST_REQUEST,
    Authority,
    asked,
    device,
)
from sottovoce.core.errors import ConfigError, InvalidInput
from tests.support import device_keys as keys


def test_it_is_made_once_and_its_key_is_private(tmp_path: Path) -> None:
    made = Authority.make(tmp_path / "state")
    file = tmp_path / "state" / AUTHORITY_KEY
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Authority.read(tmp_path / "state").pem == made.pem
    before = file.read_bytes()
    with pytest.raises(InvalidInput, match="has an authority") as caught:
        Authority.make(tmp_path / "state")
    assert "move" in caught.value.fix
    assert file.read_bytes() == before
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read"):
        Authority.read(tmp_path / "state")


def test_of_several_that_are_made_together_all_have_one(tmp_path: Path) -> None:
    together = threading.Barrier(6)

    def make(_: int) -> bytes:
        together.wait(60)
        try:
            return Authority.make(tmp_path).pem
        except InvalidInput:
            return Authority.read(tmp_path).pem

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(make, range(6)))) == 1
    assert {file.name for file in tmp_path.iterdir()} == {AUTHORITY, AUTHORITY_KEY}


def test_a_key_whose_certificate_was_not_written_yet_gets_one(tmp_path: Path) -> None:
    made = Authority.make(tmp_path)
    (tmp_path / AUTHORITY).unlink()
    with pytest.raises(ConfigError, match="no authority") as caught:
        Authority.read(tmp_path)
    assert "sotto-cloud authority init" in caught.value.fix
    again = Authority.make(tmp_path)
    assert again.certificate.public_key() == made.certificate.public_key()


@pytest.mark.parametrize("name", [AUTHORITY, AUTHORITY_KEY])
@pytest.mark.parametrize("how", ["empty", "truncated", "altered", "another's"])
def test_files_that_are_damaged_or_swapped_are_refused_by_name(
    tmp_path: Path, name: str, how: str
) -> None:
    Authority.make(tmp_path / "ours")
    Authority.make(tmp_path / "other")
    file = tmp_path / "ours" / name
    whole = file.read_bytes()
    match how:
        case "empty":
            file.write_bytes(b"")
        case "truncated":
            file.write_bytes(whole[: len(whole) // 2])
        case "altered":
            middle = len(whole) // 2
            other = b"A" if whole[middle : middle + 1] != b"A" else b"B"
            file.write_bytes(whole[:middle] + other + whole[middle + 1 :])
        case _:
            shutil.copy(tmp_path / "other" / name, file)
    with pytest.raises(ConfigError, match=r"authority\.(key|pem)") as caught:
        Authority.read(tmp_path / "ours")
    assert "backup" in caught.value.fix


def test_a_certificate_of_our_key_that_was_altered_is_refused(tmp_path: Path) -> None:
    made = Authority.make(tmp_path).certificate
    der = made.public_bytes(keys.Encoding.DER)
    body = base64.encodebytes(der.replace(b"Sottovoce devices", b"Sottovoce deviceS")).decode()
    text = f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"
    assert x509.load_pem_x509_certificate(text.encode()).public_key() == made.public_key()
    (tmp_path / AUTHORITY).write_text(text)
    with pytest.raises(ConfigError, match="no certificate of an authority"):
        Authority.read(tmp_path)


def test_a_lost_key_is_not_replaced(tmp_path: Path) -> None:
    Authority.make(tmp_path)
    (tmp_path / AUTHORITY_KEY).unlink()
    with pytest.raises(ConfigError, match=AUTHORITY_KEY):
        Authority.read(tmp_path)
    with pytest.raises(InvalidInput):
        Authority.make(tmp_path)
    assert not (tmp_path / AUTHORITY_KEY).exists()


def test_one_whose_time_has_ended_signs_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_YEARS", datetime.timedelta(minutes=-1))
    with pytest.raises(ConfigError, match="has ended"):
        Authority.make(tmp_path)


def test_a_certificate_is_for_the_key_and_for_nothing_else_that_was_asked(tmp_path: Path) -> None:
    authority, secret = Authority.make(tmp_path), keys.key()
    wanted = keys.request(
        secret,
        x509.NameAttribute(NameOID.COMMON_NAME, "cloud.example.org"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "another tenant"),
        extensions=[
            x509.SubjectAlternativeName([x509.DNSName("cloud.example.org")]),
            x509.BasicConstraints(ca=True, path_length=None),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        ],
    )
    now = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)
    made = x509.load_der_x509_certificate(authority.sign(asked(wanted), 7, now))
    made.verify_directly_issued_by(authority.certificate)
    assert made.public_key() == secret.public_key()
    assert made.subject.rfc4514_string() == f"CN={device(secret.public_key())}"
    assert made.not_valid_before_utc == now - datetime.timedelta(minutes=5)
    assert made.not_valid_after_utc == now + datetime.timedelta(days=7)
    of = made.extensions.get_extension_for_class
    assert of(x509.BasicConstraints).value.ca is False
    assert list(of(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert of(x509.KeyUsage).value.digital_signature
    assert not of(x509.KeyUsage).value.key_cert_sign
    with pytest.raises(x509.ExtensionNotFound):
        of(x509.SubjectAlternativeName)


def test_nothing_is_signed_beyond_the_authoritys_own_end(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    end = authority.certificate.not_valid_after_utc
    late = end - datetime.timedelta(days=1)
    made = x509.load_der_x509_certificate(authority.sign(keys.key().public_key(), 7, late))
    assert made.not_valid_after_utc == end


def _forged() -> bytes:
    """Asks for somebody else's key."""
    ours, theirs = keys.request(keys.key()), keys.key()
    body = keys.request(theirs)
    return body[:-64] + ours[-64:]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (b"", "no certificate request"),
        (b"\x30\x82" + bytes(200), "no certificate request"),
        (keys.request(keys.key())[:-9], "no certificate request"),
        (keys.request(keys.key()) + bytes(LARGEST_REQUEST), "4096 bytes"),
        (_forged(), "not signed with the key"),
        (keys.request(keys.key(), digest=hashes.SHA512()), "not signed with the key"),
        (keys.request(keys.key(ec.SECP192R1())), "another kind"),
        (keys.request(keys.key(ec.SECP384R1())), "another kind"),
        (keys.request(rsa.generate_private_key(65537, 1024)), "another kind"),
    ],
)
def test_what_is_weak_unsigned_or_too_large_is_refused(request_: bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        asked(request_)
    assert caught.value.subject == "csr"


def test_a_large_request_is_not_even_read() -> None:
    names = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "x" * 60)] * 80
    with pytest.raises(InvalidInput, match="4096 bytes"):
        asked(keys.request(keys.key(), *names))


def test_a_key_of_another_algorithm_is_refused() -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    der = builder.sign(ed25519.Ed25519PrivateKey.generate(), None)
    with pytest.raises(InvalidInput, match="another kind"):
        asked(der.public_bytes(keys.Encoding.DER))
