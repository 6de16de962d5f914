"""A bundle that pip installed is used in place, and checked like a pulled one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ENCODER, MANIFEST
from sottovoce.core.bundle.signature import SIGNATURE, show_key
from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady
from sottovoce.core.privacy import inspection
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.tasks.engine import open_current, signer
from tests.support.agent import configured, engine
from tests.support.signing import lay_pulled, sign

Install = Callable[..., Path]


@pytest.fixture
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture
def inspected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the ids of the checked bundles; the small bundle's claims are made up."""
    seen: list[str] = []

    def inspect(bundle: Bundle, *_: object, **__: object) -> tuple[()]:
        seen.append(bundle.id)
        return ()

    monkeypatch.setattr(inspection, "inspect", inspect)
    return seen


@pytest.fixture
def install(
    tmp_path: Path,
    small_bundle_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: Ed25519PrivateKey,
    inspected: list[str],
) -> Install:
    """Puts the small bundle where pip puts `sottovoce-bundle-LANGUAGE`; gives its folder."""

    def install(language: str = "en") -> Path:
        site = tmp_path / "site"
        folder = site / f"sottovoce_bundle_{language}" / "bundle"
        shutil.copytree(small_bundle_folder, folder)
        (folder.parent / "__init__.py").touch()
        sign(folder, key)
        monkeypatch.syspath_prepend(site)
        return folder

    return install


def test_an_installed_bundle_is_used_in_place(tmp_path: Path, install: Install) -> None:
    folder = install()
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    for path in (folder, *files):
        path.chmod(0o555 if path.is_dir() else 0o444)
    config = configured(tmp_path)
    bundle = open_current(config.bundle)
    assert bundle.folder == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == files
    assert not config.bundle.pulled.exists()
    folder.chmod(0o755)


def test_an_installed_bundle_gives_the_releases_of_a_linked_one(
    tmp_path: Path, small_bundle_folder: Path, install: Install, lexicon_tagger: Tagger
) -> None:
    install()
    here = engine(configured(tmp_path), lexicon_tagger).current()
    assert here.bundle.id == Bundle.open(small_bundle_folder).id
    assert here.privatizer is not None


def test_a_pulled_bundle_goes_before_an_installed_one(
    tmp_path: Path, small_bundle_folder: Path, install: Install, lexicon_tagger: Tagger
) -> None:
    install()
    config = configured(tmp_path)
    current = engine(config, lexicon_tagger)
    first = current.current()
    pulled = lay_pulled(config, small_bundle_folder)
    second = current.current()  # without a restart
    assert (second.bundle.folder, second is first) == (pulled, False)
    config.bundle.current.unlink()
    assert current.current().bundle.folder == first.bundle.folder


def test_a_pulled_bundle_that_is_gone_is_not_replaced_silently(
    tmp_path: Path, small_bundle_folder: Path, install: Install
) -> None:
    install()
    config = configured(tmp_path)
    shutil.rmtree(lay_pulled(config, small_bundle_folder))
    with pytest.raises(NotReady):
        open_current(config.bundle)


@pytest.mark.parametrize("path", ["manifest.json", "rows.npy", "words.txt", SIGNATURE])
def test_one_flipped_bit_is_refused_and_the_fix_installs_again(
    tmp_path: Path, install: Install, path: str
) -> None:
    file = install() / path
    sound = file.read_bytes()
    place = sound.index(b'"eta": 4.0') + 7 if path == "manifest.json" else len(sound) // 2
    file.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
    with pytest.raises(DataLoss) as caught:
        open_current(configured(tmp_path).bundle)
    assert "pip install --force-reinstall --no-deps sottovoce-bundle-en" in caught.value.fix


def test_a_file_that_the_manifest_does_not_list_is_refused(
    tmp_path: Path, install: Install
) -> None:
    (install() / "more.npy").write_bytes(b"1")
    with pytest.raises(DataLoss, match=r"more\.npy"):
        open_current(configured(tmp_path).bundle)


def test_an_installed_bundle_must_be_signed(tmp_path: Path, install: Install) -> None:
    (install() / SIGNATURE).unlink()
    with pytest.raises(BundleMismatch, match="nobody vouches"):
        open_current(configured(tmp_path).bundle)


@pytest.mark.parametrize("by", ["publisher", "settings"])
def test_only_the_publishers_or_the_configured_key_may_sign(
    tmp_path: Path,
    install: Install,
    key: Ed25519PrivateKey,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
) -> None:
    install()
    others = show_key(Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    own = show_key(key.public_key().public_bytes_raw())
    for shown, fits in ((others, False), (own, True)):
        settings = {}
        if by == "publisher":
            file = tmp_path / "publisher.pub"
            file.write_text(f"{shown}\n")
            monkeypatch.setattr("sottovoce.edge.bundle.PUBLISHER", file)
        else:
            settings["SOTTO_BUNDLE_KEY"] = shown
        config = configured(tmp_path, **settings)
        if fits:
            open_current(config.bundle)
            assert signer(config.bundle) == key.public_key().public_bytes_raw()
            continue
        with pytest.raises(BundleMismatch, match="is signed with"):
            open_current(config.bundle)


def test_the_claims_are_checked_once_a_bundle(
    tmp_path: Path, install: Install, inspected: list[str]
) -> None:
    install()
    config = configured(tmp_path)
    bundle = open_current(config.bundle)
    open_current(config.bundle)
    assert inspected == [bundle.id]


def test_claims_that_do_not_hold_are_refused_each_time(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install()

    def refuse(*_: object, **__: object) -> None:
        raise BundleMismatch("a claim does not hold")

    monkeypatch.setattr(inspection, "inspect", refuse)
    for _ in range(2):
        with pytest.raises(BundleMismatch, match="does not hold"):
            open_current(configured(tmp_path).bundle)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_check_that_cannot_be_noted_is_made_again(
    tmp_path: Path, install: Install, inspected: list[str]
) -> None:
    install()
    config = configured(tmp_path)
    config.bundle.path.mkdir(parents=True, exist_ok=True)
    config.bundle.path.chmod(0o500)
    open_current(config.bundle)
    open_current(config.bundle)
    assert len(inspected) == 2


def test_a_package_of_another_language_is_left_alone(tmp_path: Path, install: Install) -> None:
    install("de")
    with pytest.raises(NotReady):
        open_current(configured(tmp_path).bundle)


def test_an_installed_bundle_without_encoder_names_the_package(
    tmp_path: Path, install: Install, lexicon_tagger: Tagger
) -> None:
    folder = install()
    current = engine(configured(tmp_path), lexicon_tagger)
    with pytest.raises(NotReady) as caught:
        current.check_encoder_package()
    assert "pip install sottovoce-bundle-en-encoder" in caught.value.fix
    (folder / ENCODER).mkdir()
    current.check_encoder_package()


def test_a_link_to_nowhere_is_named(tmp_path: Path) -> None:
    config = configured(tmp_path)
    config.bundle.path.mkdir(parents=True, exist_ok=True)
    config.bundle.current.symlink_to(tmp_path / "gone")
    for open_it in (open_current, signer):
        with pytest.raises(NotReady) as caught:
            open_it(config.bundle)
        assert str(tmp_path / "gone") in caught.value.problem
        assert "link" in str(caught.value.fix)


def test_a_bundle_in_place_of_the_folder_of_bundles_is_named(tmp_path: Path) -> None:
    config = configured(tmp_path)
    config.bundle.path.mkdir(parents=True, exist_ok=True)
    (config.bundle.path / MANIFEST).write_text("{}")
    with pytest.raises(NotReady) as caught:
        open_current(config.bundle)
    assert caught.value.subject == "bundle.path"
