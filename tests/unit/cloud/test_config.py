"""The server refuses to run unsafely, and names are fit for folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cloud.config import Settings, UpstreamSettings, check_name
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


@pytest.mark.parametrize("listen", ["127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:x", "", ":1"])
def test_a_wrong_address_is_refused(listen: str, tmp_path: Path) -> None:
    """gRPC would serve on port 34463 instead of 99999."""
    with pytest.raises(ConfigError, match="address"):
        Settings(tmp_path, (tmp_path,), listen=listen)


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


def test_one_model_writes(tmp_path: Path) -> None:
    upstream = UpstreamSettings("http://127.0.0.1:8000/v1", "big")
    Settings(tmp_path, (tmp_path,), upstream=upstream)
    with pytest.raises(ConfigError, match="both"):
        Settings(tmp_path, (tmp_path,), decoder="tiny", upstream=upstream)


def test_texts_go_to_another_machine_in_secret() -> None:
    with pytest.raises(ConfigError, match="plaintext") as caught:
        UpstreamSettings("http://gpu.example:8000/v1", "big")
    assert "--upstream-plaintext" in caught.value.fix
    UpstreamSettings("http://gpu.example:8000/v1", "big", plaintext=True)
    UpstreamSettings("https://gpu.example/v1", "big")


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://a/v1", "http://", "http://a:b/v1"])
def test_an_upstream_is_a_url(url: str) -> None:
    with pytest.raises(ConfigError, match="no URL"):
        UpstreamSettings(url, "big")


def test_an_upstream_needs_a_model() -> None:
    with pytest.raises(ConfigError, match="model") as caught:
        UpstreamSettings("https://gpu.example/v1", "")
    assert "--upstream-model" in caught.value.fix


def test_adapters_behind_the_cloud_have_their_tenants() -> None:
    def of(*adapters: str) -> UpstreamSettings:
        return UpstreamSettings("https://gpu.example/v1", "big", None, adapters)

    found = of("acme/mail=org/acme=1", "other/mail=o").by_tenant()
    assert found == {("acme", "mail"): "org/acme=1", ("other", "mail"): "o"}
    for wrong in ("mail=m", "acme/mail", "acme/mail=", "a/b/c=m", "/mail=m"):
        with pytest.raises(ConfigError, match="names no adapter"):
            of(wrong)


def test_a_key_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    settings = UpstreamSettings("https://gpu.example/v1", "big", file)
    for held in (None, b"", b" \n", b"two\nlines", "é".encode()):
        if held is not None:
            file.write_bytes(held)
        with pytest.raises(ConfigError, match="no key"):
            settings.key()
    file.write_text("sk-1\n")
    assert settings.key() == "sk-1"
    assert UpstreamSettings("https://gpu.example/v1", "big").key() == ""


def test_settings_do_not_print_the_database_and_its_password(tmp_path: Path) -> None:
    settings = Settings(tmp_path, (), store="postgresql://u:secret@h/d")
    assert "secret" not in repr(settings)


def test_certificates_of_clients_need_tls() -> None:
    with pytest.raises(ConfigError, match="without TLS"):
        Settings(Path("state"), (), client_ca=Path("ca"))
