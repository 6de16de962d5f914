"""The bundle in use: a bundle that was pulled or linked, else a bundle that pip installed.

``sottovoce-bundle-en`` holds a bundle in ``sottovoce_bundle_en/bundle``. The device maps its files
where pip put them, and never writes there.

`pull` fetches a bundle from the cloud: resumable, verified, and installed in one step. A bundle
decides the replacement of every word. So a device must use all of the right bundle, or
none. Files are collected in a separate folder. Each is hashed against the manifest, which the
provider signed. A single rename then makes the whole the current bundle. An interrupted pull
continues where it stopped.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sottovoce.core.bundle.folder import Bundle, check_bound, check_network
from sottovoce.core.bundle.manifest import (
    ENCODER,
    MANIFEST,
    Manifest,
    StoredFile,
    bundle_id,
    sha256,
)
from sottovoce.core.bundle.signature import SIGNATURE, Signature, read_key, show_key
from sottovoce.core.errors import (
    BundleMismatch,
    DataLoss,
    NotReady,
    QuotaExceeded,
    Remedy,
    SottovoceError,
    Unavailable,
)
from sottovoce.core.platform.files import (
    atomic,
    disk,
    in_place_of,
    private_folder,
    sync_folder,
    sync_tree,
)
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.connection import KnownClouds
from sottovoce.edge.client.retry import download_with_retry
from sottovoce.edge.config import BundleConfig
from sottovoce.edge.state.database import locked

PUBLISHER: Final = Path(__file__).with_name("publisher.pub")
"""The public key of this release's bundle packages. Only built distributions hold the file."""

_INSPECTED: Final = "inspected"
"""The file of the ids of installed bundles whose claims held, beside the pulled bundles."""

_log = logging.getLogger(__name__)


class Origin(Enum):
    """How a bundle came to this device."""

    PULLED = "pulled"
    LINKED = "linked"
    INSTALLED = "installed"


@dataclass(frozen=True, slots=True)
class InUse:
    """The folder of the bundle in use, which may not exist, and the bundle's origin."""

    folder: Path
    origin: Origin


def in_use(config: BundleConfig) -> InUse:
    """Return the bundle that ``current`` points to, else the installed one of the language."""
    folder, installed = _found(config)
    if installed:
        return InUse(folder, Origin.INSTALLED)
    pulled = folder.parent == config.pulled.resolve()
    return InUse(folder, Origin.PULLED if pulled else Origin.LINKED)


def folder_in_use(config: BundleConfig) -> Path:
    """Return the folder of the same bundle; every request needs it."""
    return _found(config)[0]


def _found(config: BundleConfig) -> tuple[Path, bool]:
    """Return the folder, and whether it is installed."""
    current = config.current
    if not os.path.lexists(current) and (folder := _installed(config.language)):
        return folder, True
    return current.resolve(), False


def package(language: str) -> str:
    """Return the name of the package that holds a language's bundle.

    >>> package("pt-BR")
    'sottovoce-bundle-pt-br'
    """
    return f"sottovoce-bundle-{language.lower()}"


def _installed(language: str) -> Path | None:
    spec = find_spec(package(language).replace("-", "_"))
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (folder := Path(place).resolve() / "bundle").is_dir():
            return folder
    return None


def not_there(config: BundleConfig) -> NotReady:
    """Return the error for a bundle that is not there."""
    current = config.current
    if os.path.lexists(current):
        return NotReady(
            f"{current} points to {current.resolve()}, which is not there",
            fix="remove the link or make it point to a bundle; `sotto pull` replaces it",
            subject="bundle",
        )
    if (config.path / MANIFEST).is_file():
        return NotReady(
            f"bundle.path is a bundle itself: {config.path}",
            fix=f"set it to another folder F, then run `ln -s {config.path.resolve()} F/current`",
            subject="bundle.path",
        )
    return NotReady(f"no bundle at {current}", fix=Remedy.GET_BUNDLE, subject="bundle")


def check_publisher(config: BundleConfig, key: bytes) -> None:
    """Check that ``key`` may sign installed bundles.

    It must be the configured key, else the key in `PUBLISHER`. A program that was not built as a
    distribution names no publisher, and accepts any key.
    """
    if config.key:
        wanted = read_key(config.key)
    elif PUBLISHER.exists():
        wanted = read_key(PUBLISHER.read_text(encoding="ascii"))
    else:
        return
    if key != wanted:
        raise BundleMismatch(
            f"the installed bundle is signed with {show_key(key)}, not with {show_key(wanted)}",
            fix="install the bundle of this release, or set bundle.key to that key if you trust it",
            subject="bundle.key",
        )


def inspect_once(config: BundleConfig, bundle: Bundle) -> None:
    """Check what an installed bundle claims, unless its id was noted after an earlier check."""
    from sottovoce.core.privacy import inspection  # rarely needed

    file = config.path / _INSPECTED
    try:
        noted = file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        noted = []
    if bundle.id in noted:
        return
    _log.warning("measuring what the levels of bundle %s protect: once, some seconds", bundle.id)
    inspection.inspect(bundle, config.language, accept_unchecked=config.accept_unchecked)
    try:
        private_folder(config.path)
        with atomic(file) as out:
            out.write("".join(f"{each}\n" for each in (*noted, bundle.id)).encode())
    except OSError as error:
        _log.warning("the check cannot be noted in %s: %s", file, error.strerror)


Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes so far, and the bytes of the bundle."""

_REPLACED = ".replaced"
"""The folder of an old encoder while a new one takes its place."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """The installed bundle."""

    id: str
    folder: Path
    key: bytes
    bytes: int
    up_to_date: bool
    encoder: bool


def pull(
    cloud: Cloud,
    config: BundleConfig,
    *,
    wanted: str = "",
    encoder: bool = False,
    key: bytes | None = None,
    progress: Progress = lambda name, done, total: None,
) -> Pulled:
    """Make the cloud's bundle the current one.

    Args:
        config: the folder of bundles, and the required backbone.
        wanted: a bundle id; empty takes the cloud's default.
        encoder: also fetch the device's encoder. A device that has one fetches the new one anyway.
        key: the provider's public key, according to the owner; it replaces the stored one.

    Raises:
        DataLoss: a file does not match the manifest, and was removed. Or the manifest does not
            match its signature.
        BundleMismatch: the bundle has another format, language or backbone, or is not what it
            claims to be (see `sottovoce.core.privacy.inspection`). Or its key is not the stored,
            configured or given one. Unavailable: the connection broke repeatedly; the next try
            continues from the bytes that arrived. QuotaExceeded: the disk is full.
        NotReady: another pull is running, or the bundle is not signed.
    """
    private_folder(config.path)
    bundles = config.pulled
    busy = NotReady("another `sotto pull` is at work", fix="wait until it has finished")
    with disk(bundles), locked(config.path / ".pull.lock", busy):
        bundles.mkdir(exist_ok=True)
        answer = cloud.get_manifest(wanted)
        identity = bundle_id(answer.manifest)
        if not identity == answer.bundle_id == (wanted or identity):
            raise DataLoss("the manifest is not the bundle's", fix="try again, or ask the provider")
        signature = Signature.of(answer.public_key, answer.signature)
        signature.check(answer.manifest)
        known = KnownClouds(config)
        _check_key(known, cloud.address, signature.key, key)
        manifest = Manifest.from_json(answer.manifest)
        if config.backbone and manifest.backbone.name != config.backbone:
            raise BundleMismatch(
                f"the cloud's bundle is for backbone {manifest.backbone.name!r}, "
                f"not {config.backbone!r}",
                fix="pull from another cloud, or change bundle.backbone in the configuration",
                subject="bundle",
            )
        folder = bundles / identity
        partial = bundles / f".partial-{identity}"
        held = (in_use(config).folder / ENCODER).is_dir() or (bundles / _REPLACED).is_dir()
        extra = _optional(manifest, folder, encoder, held=held)
        size = sum(file.bytes for file in (*manifest.files.values(), *extra.values()))
        aside = bundles / f".optional-{identity}"
        if not extra:  # left by an interrupted pull, and not verified
            shutil.rmtree(aside, ignore_errors=True)
        # First, so that an update never leaves a device without its encoder.
        done = _complete_all(cloud, identity, aside, extra, progress, (0, size))
        if extra:
            _check_encoder(aside)
        has_encoder = bool(extra) or (folder / ENCODER).is_dir()
        here = _is_sound(folder, identity, partial)
        if here:
            _put(aside, folder)
            _write(folder / SIGNATURE, signature.to_bytes())
        else:
            _complete_all(cloud, identity, partial, manifest.files, progress, (done, size))
            _write(partial / MANIFEST, answer.manifest)
            _write(partial / SIGNATURE, signature.to_bytes())
            arrived = Bundle.open(partial, expected=identity)
            check_bound(arrived)
            progress("measuring what its levels protect", size, size)
            from sottovoce.core.privacy import inspection  # rarely needed

            inspection.inspect(arrived, config.language, accept_unchecked=config.accept_unchecked)
            _put(aside, partial)
            for inner in (*(p for p in partial.rglob("*") if p.is_dir()), partial):
                sync_folder(inner)
            partial.rename(folder)
            sync_folder(bundles)
        before = config.current.resolve()
        known.note(cloud.address, signature.key)
        _switch(config.current, folder)
        if not here:
            _tidy(bundles, keep={folder, before})
    return Pulled(identity, folder, signature.key, size, here and not extra, has_encoder)


def _is_sound(folder: Path, identity: str, partial: Path) -> bool:
    """Return whether ``folder`` holds the bundle.

    A damaged bundle is moved to ``partial``, which keeps its good files for the next pull.
    """
    if not folder.exists():
        return False
    try:
        Bundle.open(folder, expected=identity)
    except SottovoceError:
        shutil.rmtree(partial, ignore_errors=True)
        folder.rename(partial)
        return False
    return True


def _check_key(known: KnownClouds, address: str, key: bytes, given: bytes | None) -> None:
    """Check that ``key`` is the owner's given key, or else may sign for ``address``."""
    if given is None:
        known.check(address, key)
    elif given != key:
        raise BundleMismatch(
            f"{address} signs bundles with {show_key(key)}, not with the key given",
            fix="compare the keys; if the address is right, ask the provider",
            subject="bundle.key",
        )


def _optional(
    manifest: Manifest, folder: Path, wanted: bool, *, held: bool
) -> dict[str, StoredFile]:
    """Return the optional files to fetch: all or none.

    None are fetched if the owner does not want them and the device has none. None are fetched
    either if ``folder`` has them unchanged.
    """
    if wanted and not manifest.optional:
        raise NotReady(
            "the cloud's bundle has no encoder for devices",
            fix="ask the provider to build it with `sotto-cloud build-bundle --encoder`",
            subject="encoder",
        )
    there = all(
        (folder / path).is_file() and sha256(folder / path) == stored.sha256
        for path, stored in manifest.optional.items()
    )
    return {} if there or not (wanted or held) else dict(manifest.optional)


def _check_encoder(aside: Path) -> None:
    """Refuse an encoder that no device should run, and remove it."""
    try:
        for network in aside.rglob("*.onnx"):
            check_network(network)
    except BundleMismatch:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _put(aside: Path, folder: Path) -> None:
    """Move a verified encoder, if any, from ``aside`` into ``folder``.

    The old encoder, the new one or `_REPLACED` exists at any moment. So a pull after a crash knows
    that this device has an encoder.
    """
    place, replaced = folder / ENCODER, folder.parent / _REPLACED
    if aside.is_dir():
        sync_tree(aside)
        if place.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            place.rename(replaced)
        (aside / ENCODER).rename(place)
        sync_folder(folder)
        shutil.rmtree(aside)
    shutil.rmtree(replaced, ignore_errors=True)


def _complete_all(
    cloud: Cloud,
    identity: str,
    partial: Path,
    files: Mapping[str, StoredFile],
    progress: Progress,
    done: tuple[int, int],
) -> int:
    """Fetch all ``files`` into ``partial``; return the number of bytes after that.

    Args:
        done: the bytes before, and in the end.
    """
    before, size = done
    if not files:
        return before
    partial.mkdir(exist_ok=True)
    _make_room(partial, sum(stored.bytes for stored in files.values()))
    for path, stored in files.items():
        report = _offset(progress, path, before, size)
        _complete(cloud, identity, partial, path, stored, report)
        before += stored.bytes
    return before


def _complete(
    cloud: Cloud,
    identity: str,
    partial: Path,
    path: str,
    stored: StoredFile,
    report: Callable[[int], None],
) -> None:
    """Fetch the rest of one file and check its hash."""
    file = partial / path
    file.parent.mkdir(parents=True, exist_ok=True)

    def size() -> int:
        return file.stat().st_size if file.exists() else 0

    def receive() -> None:
        have = size()
        if have < stored.bytes or not file.exists():
            _append(cloud.fetch_file(identity, path, have), file, stored.bytes, report)
        elif have > stored.bytes:
            raise DataLoss("too long")
        if size() < stored.bytes:
            raise Unavailable("the cloud ended the file early", fix="run `sotto pull` again")
        if sha256(file) != stored.sha256:
            raise DataLoss("wrong hash")

    resumed = size() > 0
    while True:
        try:
            download_with_retry(receive, size)
            report(stored.bytes)
            return
        except DataLoss as error:
            file.unlink(missing_ok=True)
            if not resumed:
                raise DataLoss(
                    f"bundle file {path} arrived altered and was removed",
                    fix="run `sotto pull` again; if it happens again, ask the provider",
                    subject=path,
                ) from error
            resumed = False  # bytes of an earlier pull were bad: start once more


def _append(chunks: Iterator[bytes], file: Path, size: int, report: Callable[[int], None]) -> None:
    with file.open("ab") as out:
        for chunk in chunks:
            if out.tell() + len(chunk) > size:
                raise DataLoss("too long")  # a cloud must not be able to fill the disk
            out.write(chunk)
            report(out.tell())
        out.flush()
        os.fsync(out.fileno())


def _write(file: Path, data: bytes) -> None:
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _make_room(partial: Path, size: int) -> None:
    have = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    free = shutil.disk_usage(partial).free
    if size - have > free:
        raise QuotaExceeded(
            f"the bundle needs {(size - have) >> 20} MiB more, {free >> 20} MiB are free",
            fix="free some space, or set bundle.path to a larger disk",
            subject="disk",
        )


def _switch(link: Path, folder: Path) -> None:
    with in_place_of(link) as aside:
        aside.symlink_to(folder.relative_to(link.parent))


def _tidy(bundles: Path, keep: set[Path]) -> None:
    """Remove all bundles except the new bundle and the previous bundle.

    A process may still be opening the previous bundle. Files that a process has mapped stay
    readable for this process after their removal.
    """
    kept = {path.resolve() for path in keep}
    for old in bundles.iterdir():
        if old.resolve() not in kept:
            _log.info("removing the old bundle %s", old.name)
            shutil.rmtree(old, ignore_errors=True)


def _offset(progress: Progress, name: str, before: int, total: int) -> Callable[[int], None]:
    return lambda done: progress(name, before + done, total)
