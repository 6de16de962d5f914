"""A bucket's URL, what the environment adds, and that no secret is in what is said of either."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cloud.store.s3 import S3Place
from sottovoce.core.errors import ConfigError

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush"}


def test_what_a_url_says() -> None:
    found = S3Place.of("s3://b/some/prefix/?endpoint=https://s3.example.org/&region=eu", KEYS)
    assert (found.bucket, found.prefix, found.plaintext) == ("b", "some/prefix", False)
    assert found.settings() == {"aws_endpoint": "https://s3.example.org", "aws_region": "eu"}
    assert str(found) == "s3://b/some/prefix"
    assert S3Place.of("s3://b", KEYS).settings() == {}


def test_an_endpoint_of_the_environment() -> None:
    environment = {**KEYS, "AWS_ENDPOINT_URL": "https://one.example.org"}
    assert S3Place.of("s3://b", environment).endpoint == "https://one.example.org"
    environment["AWS_ENDPOINT_URL_S3"] = "https://two.example.org"
    assert S3Place.of("s3://b", environment).endpoint == "https://two.example.org"
    found = S3Place.of("s3://b?endpoint=http://localhost:1", environment)
    assert (found.endpoint, found.plaintext) == ("http://localhost:1", True)


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "[::1]:9000", "localhost"])
def test_plain_http_is_for_this_machine(host: str) -> None:
    assert S3Place.of(f"s3://b?endpoint=http://{host}", KEYS).plaintext


def test_plain_http_elsewhere_has_to_be_said() -> None:
    url = "s3://b?endpoint=http://10.0.0.7:9000"
    with pytest.raises(ConfigError, match="plain HTTP"):
        S3Place.of(url, KEYS)
    assert S3Place.of(url, {**KEYS, "AWS_ALLOW_HTTP": "true"}).plaintext


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        "s3://id:hush@bucket",
        "s3://b?endpoint=ftp://x",
        "s3://b?endpoint=hush",
        "s3://b?secret=hush",
        "s3://b?versions=maybe",
        "s3://b#hush",
        "s3://[hush",
        "s3://b c",
        "s3://b%00",
        "s3://b/one//two",
        "s3://b/one/../hush",
        "s3://b/%0a",
        "s3://b?region=hush%0a",
        "s3://b?endpoint=https://",
        "s3://b?endpoint=https://[hush",
        "s3://b?endpoint=https://x:99999",
        "s3://b?endpoint=https://x%20hush",
        "s3://b?endpoint=https://id:hush@x",
        "s3://b?endpoint=https://x?key=hush",
    ],
)
def test_what_is_no_url_is_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        S3Place.of(url, KEYS)
    assert "hush" not in str(caught.value)


def test_the_file_of_credentials(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = a%b\n"
        "[other]\naws_access_key_id = two\naws_secret_access_key = c\naws_session_token = t\n"
    )
    named = {"AWS_SHARED_CREDENTIALS_FILE": str(file)}
    found = S3Place.of("s3://b", named)
    assert found.settings() == {"aws_access_key_id": "one", "aws_secret_access_key": "a%b"}
    assert "a%b" not in repr(found)
    assert S3Place.of("s3://b", {**named, "AWS_PROFILE": "other"}).secrets == {
        "aws_access_key_id": "two",
        "aws_secret_access_key": "c",
        "aws_session_token": "t",
    }
    assert S3Place.of("s3://b", {**named, **KEYS}).secrets == {}, "the environment goes before"
    with pytest.raises(ConfigError, match="profile"):
        S3Place.of("s3://b", {**named, "AWS_PROFILE": "none"})
    file.write_text("hush hush\n")
    with pytest.raises(ConfigError) as caught:
        S3Place.of("s3://b", named)
    assert "hush" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_an_address_with_a_password_is_refused_wherever_it_stands() -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        with pytest.raises(ConfigError, match="more than an address") as caught:
            S3Place.of("s3://b", {**KEYS, name: "https://id:hush@s3.example.org"})
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("value", ["hush\n", "hush hush", "h\u00fcsh"])
def test_what_no_request_can_hold_is_refused_by_its_name(tmp_path: Path, value: str) -> None:
    for name in (*KEYS, "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        with pytest.raises(ConfigError, match=name) as caught:
            S3Place.of("s3://b", {**KEYS, name: value})
        assert value.strip() not in str(caught.value)
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = one\naws_secret_access_key = h\u00fc sh\n")
    with pytest.raises(ConfigError, match="credentials"):
        S3Place.of("s3://b", {"AWS_SHARED_CREDENTIALS_FILE": str(file)})


def test_a_file_of_credentials_that_was_named_is_there_and_has_them(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    named = {"AWS_SHARED_CREDENTIALS_FILE": str(file)}
    with pytest.raises(ConfigError, match="credentials"):
        S3Place.of("s3://b", named)
    for text in ("", "[other]\naws_access_key_id = one\n", "[default]\naws_access_key_id = one\n"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="credentials"):
            S3Place.of("s3://b", named)
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match="credentials"):
        S3Place.of("s3://b", named)


def test_the_usual_file_of_credentials_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert S3Place.of("s3://b", {}).secrets == {}, "a machine may have a role"
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[other]\naws_access_key_id = two\n")
    assert S3Place.of("s3://b", {}).secrets == {}
