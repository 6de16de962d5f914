"""A secret is read for each call, and a wrong one is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError
from sottovoce.edge.client.connection import SecretFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.touch(0o600)
    return path


def test_a_renewed_secret_needs_no_restart(path: Path) -> None:
    secret = SecretFile(path, "chat.key_file", "key")
    for told in ("first", "second"):
        path.write_text(f"{told}\n")
        assert secret.read() == told


@pytest.mark.parametrize("content", [b"", b" \n", "clé".encode(), b"a\x00b", b"a\nb"])
def test_what_is_no_secret_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="holds no key") as caught:
        SecretFile(path, "chat.key_file", "key").read()
    assert caught.value.subject == "chat.key_file"


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    path.unlink()
    with pytest.raises(ConfigError, match=r"cannot read .*key"):
        SecretFile(path, "chat.key_file", "key").read()


def test_the_log_is_told_once_where_others_can_read_it(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text("secret")
    secret = SecretFile(path, "chat.key_file", "key")
    secret.read()
    assert not caplog.records
    path.chmod(0o644)
    for _ in range(2):
        secret.read()
    (record,) = caplog.records
    assert "chmod 600" in record.getMessage()
    assert "secret" not in record.getMessage()
