"""Serve bundles: public files, in chunks, from any offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import grpc

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import MANIFEST
from sottovoce.core.bundle.signature import Signature
from sottovoce.core.errors import BundleMismatch, ConfigError, NotFound, OutOfRange
from sottovoce.v1 import bundles_pb2 as wire
from sottovoce.v1 import bundles_pb2_grpc

CHUNK = 256 * 1024


def open_bundles(
    folders: Sequence[Path], backbone: tuple[str, str] | None = None
) -> dict[str, Bundle]:
    """Return bundles by id, in the order given.

    Args:
        backbone: name and hash of the required backbone; None if no backbone is used.

    Raises:
        ConfigError: no bundle is given.
        BundleMismatch: a bundle was made from another backbone.
    """
    if not folders:
        raise ConfigError("no bundle to serve", fix="give --bundle DIR")
    bundles: dict[str, Bundle] = {}
    for folder in folders:
        bundle = Bundle.open(folder)
        if backbone is not None and bundle.manifest.backbone.sha256 != backbone[1]:
            raise BundleMismatch(
                f"the bundle at {folder} was made from another backbone than {backbone[0]}",
                fix="build it again with `sotto-cloud build-bundle`, or give its --backbone",
                subject="bundle",
            )
        bundles[bundle.id] = bundle
    return bundles


def released_with(bundles: Mapping[str, Bundle], bundle_id: str) -> Bundle:
    """Return the bundle with which a job's examples were released.

    Raises:
        BundleMismatch: this cloud does not serve it.
    """
    if bundle_id not in bundles:
        raise BundleMismatch(
            "the examples were released with a bundle this cloud does not serve",
            fix="fetch the current one with `sotto pull HOST:PORT` and customise again",
            subject="bundle_id",
        )
    return bundles[bundle_id]


def find(bundles: Mapping[str, Bundle], bundle_id: str) -> Bundle:
    """Return a bundle by id; an empty id means the first, the default.

    Raises:
        NotFound: this cloud does not serve it.
    """
    if not bundle_id:
        return next(iter(bundles.values()))
    if bundle_id not in bundles:
        raise NotFound(
            "this cloud does not serve that bundle",
            fix="fetch the current one with `sotto pull HOST:PORT`",
            subject="bundle_id",
        )
    return bundles[bundle_id]


class BundlesService(bundles_pb2_grpc.BundlesServiceServicer):
    """Serves bundles by id, the first one by default, with the signatures of their manifests."""

    def __init__(self, bundles: Mapping[str, Bundle], signatures: Mapping[str, Signature]) -> None:
        self._bundles = bundles
        self._signatures = signatures

    def GetManifest(  # noqa: N802 - the wire's name
        self, request: wire.GetManifestRequest, context: grpc.ServicerContext
    ) -> wire.GetManifestResponse:
        """Return the manifest's exact bytes and its signature."""
        bundle = find(self._bundles, request.bundle_id)
        data = (bundle.folder / MANIFEST).read_bytes()
        signature = self._signatures[bundle.id]
        return wire.GetManifestResponse(
            bundle_id=bundle.id, manifest=data, public_key=signature.key, signature=signature.value
        )

    def FetchFile(  # noqa: N802
        self, request: wire.FetchFileRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.FetchFileResponse]:
        """Stream one file from an offset on."""
        bundle = find(self._bundles, request.bundle_id)
        # Only names in the manifest are opened, so no path reaches outside.
        manifest = bundle.manifest
        stored = manifest.files.get(request.path) or manifest.optional.get(request.path)
        if stored is None:
            raise NotFound(
                "the bundle has no such file", fix="use a path of the manifest", subject="path"
            )
        if request.offset > stored.bytes:
            raise OutOfRange(
                f"offset {request.offset} lies past the end at {stored.bytes}",
                fix="delete the partial file and start at 0",
                subject="offset",
                metadata={"bytes": str(stored.bytes)},
            )
        with (bundle.folder / request.path).open("rb") as file:
            file.seek(request.offset)
            while chunk := file.read(CHUNK):
                yield wire.FetchFileResponse(chunk=chunk)
