"""The server refuses to run unsafely, and names are fit for folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cloud.config import Settings, check_name
from sottovoce.core.errors import ConfigError, InvalidInput


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "192.0.2.7:8471", "cloud.example:1"])
def test_plaintext_is_only_for_this_machine(listen: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="plaintext") as caught:
        Settings(tmp_path, (tmp_path,), listen=listen)
    assert "--tls-cert" in caught.value.fix
    Settings(tmp_path, (tmp_path,), listen=listen, insecure_plaintext=True)
    Settings(tmp_path, (tmp_path,), listen=listen, tls_cert=tmp_path, tls_key=tmp_path)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:9", "localhost:1", "unix:/run/x.sock"])
def test_local_addresses_need_no_tls(listen: str, tmp_path: Path) -> None:
    assert Settings(tmp_path, (tmp_path,), listen=listen).local


def test_half_a_tls_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="both"):
        Settings(tmp_path, (tmp_path,), tls_cert=tmp_path)


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a" * 65, "a\n", "é", "a.b"])
def test_names_that_could_leave_their_folder_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_name(name, "adapter")
    assert caught.value.subject == "adapter"


def test_fit_names_pass() -> None:
    assert [check_name(n, "x") for n in ("a", "help-desk_2", "0" * 64)]
