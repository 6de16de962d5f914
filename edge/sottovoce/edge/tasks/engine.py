"""The bundle in use: opened when first needed, and again after a pull.

The daemon starts before the first bundle and runs through many. Each release asks the engine for
the bundle, so a pull takes effect with the next text and without a restart. Damage takes effect at
once too: files that differ from the pulled bytes are never used for a release.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sottovoce.core.bundle.folder import Bundle, check_bound
from sottovoce.core.bundle.manifest import ENCODER, MANIFEST
from sottovoce.core.bundle.signature import SIGNATURE, Signature
from sottovoce.core.errors import (
    BundleMismatch,
    DataLoss,
    NotFound,
    NotReady,
    SottovoceError,
)
from sottovoce.core.platform import memory
from sottovoce.core.privacy.decisions import WINDOW, Reader
from sottovoce.core.privacy.hiding import Hiding
from sottovoce.core.privacy.policies import PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer, shipped_reader
from sottovoce.core.privacy.search import Graphs
from sottovoce.core.text.tagger import OnnxTagger, Tagger
from sottovoce.edge.bundle import (
    InUse,
    Origin,
    check_publisher,
    folder_in_use,
    in_use,
    inspect_once,
    not_there,
    package,
    pull,
)
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.connection import KnownClouds
from sottovoce.edge.config import BundleConfig, HideConfig, PrivacyConfig, TaggerConfig


def open_current(config: BundleConfig) -> Bundle:
    """Open the bundle in use, and check it.

    The check covers its files, its signature and its numbers. A pulled bundle lies in a folder
    named after its id, which also checks its manifest. A bundle that the owner linked by hand has
    another folder name. Without a configured key it needs no signature, and its manifest is
    trusted. The claims of an installed bundle are checked at its first use, as a pull does.

    Raises:
        NotReady: there is no bundle.
        BundleMismatch, DataLoss: the bundle cannot be used.
    """
    found = in_use(config)
    if not found.folder.is_dir():
        raise not_there(config)
    expected = found.folder.name if found.origin is Origin.PULLED else None
    try:
        bundle = Bundle.open(found.folder, expected=expected, backbone=config.backbone or None)
        _signer(config, found)
        check_bound(bundle)
        if found.origin is Origin.INSTALLED:
            inspect_once(config, bundle)
    except DataLoss as error:
        if found.origin is not Origin.INSTALLED:
            raise
        raise DataLoss(
            error.problem,
            fix="install it again: "
            f"`pip install --force-reinstall --no-deps {package(config.language)}`",
            subject=error.subject,
        ) from error
    return bundle


def signer(config: BundleConfig) -> bytes | None:
    """Return the key that signed the bundle in use; None for one linked by hand.

    Raises:
        NotReady: there is no bundle.
        DataLoss: the signature does not fit the manifest.
        BundleMismatch: this device does not know the signing key, or a required signature is
            missing.
    """
    found = in_use(config)
    if not found.folder.exists():
        raise not_there(config)
    return _signer(config, found)


def _signer(config: BundleConfig, found: InUse) -> bytes | None:
    if found.origin is Origin.LINKED and not config.key:
        return None
    signature = Signature.read(found.folder)
    if signature is None:
        raise BundleMismatch(
            f"the bundle has no {SIGNATURE}, so nobody vouches for it",
            fix="run `sotto pull`" + (", or take bundle.key out" if config.key else ""),
            subject="bundle.key",
        )
    if found.origin is Origin.INSTALLED:
        check_publisher(config, signature.key)
    else:
        KnownClouds(config).check_any(signature.key)
    signature.check((found.folder / MANIFEST).read_bytes())
    return signature.key


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenBundle:
    """A bundle and its privatizer.

    ``full`` says whether the bundle had the finder `full` when it was opened.
    """

    bundle: Bundle
    privatizer: Privatizer
    full: bool


def open_tagger(bundle: Bundle, config: TaggerConfig) -> Tagger:
    """Open the configured tagger: the bundle's own, or an installed spaCy pipeline.

    Raises:
        DataLoss: the bundle's tagger is damaged.
        NotReady: the bundle has no tagger, or spaCy or the pipeline is not installed.
    """
    if config.backend == "spacy":
        from sottovoce.core.text.tagger import SpacyTagger  # optional, and slow to import

        return SpacyTagger(config.pipeline)
    if not bundle.tagger_folder.is_dir():
        language = bundle.manifest.language
        raise NotReady(
            f"this bundle, of language {language!r}, brings no tagger of its own",
            fix='set tagger.backend = "spacy", and tagger.pipeline to a spaCy pipeline for it',
            subject="tagger",
        )
    return OnnxTagger.load(bundle.tagger_folder)


def open_reader(bundle: Bundle, finder: str) -> Reader | None:
    """Open the finder of `personal` for a bundle; None where no finder is there.

    Args:
        finder: `PrivacyConfig.finder`.

    Raises:
        NotReady, DataLoss: "full" is asked for, and cannot be used.
    """
    if finder == "small" or (finder == "auto" and not bundle.has_full_finder):
        return shipped_reader()
    from sottovoce.core.bundle.full_finder import FullFinder  # needs more memory

    try:
        return FullFinder.load(bundle)
    except DataLoss as error:
        if finder == "full":
            raise
        _log.warning("%s; the small finder takes its place", error.problem)
        return shipped_reader()


class Engine:
    """Gives the current bundle and its privatizer to any thread.

    Args:
        bundle: location of the bundles, and the backbone to insist on.
        privacy: supplies ``unsure_below``, the floors, the finder, and the mechanism to prepare
            for.
        tagger: makes the tagger for a bundle, when it is first needed.
        tagger_name: identifies the tagger in the ledger's notes on charges.
        graphs: keeps the graphs that searches build; without it each process builds its own.
        hide: what the owner hides, until `heed` is told more.
    """

    def __init__(
        self,
        bundle: BundleConfig,
        privacy: PrivacyConfig,
        tagger: Callable[[Bundle], Tagger],
        tagger_name: str,
        graphs: Graphs | None = None,
        hide: HideConfig | None = None,
    ) -> None:
        own = (hide or HideConfig()).hiding()
        self._hiding: Callable[[], Hiding] = lambda: own
        self._config = bundle
        self._unsure_below = privacy.unsure_below
        self._mechanism = privacy.mechanism
        self.floors = PrivacyLimits(privacy.largest_eta, privacy.least_policy)
        """The owner's limits."""
        self._tagger = tagger
        self._finder = privacy.finder
        self._graphs = graphs
        self._lock = threading.Lock()
        self._opened: OpenBundle | None = None
        self.fingerprint = f"{tagger_name} {privacy.unsure_below!r}"
        if bundle.accept_unchecked:
            self.fingerprint += " unchecked"
        """Settings that change a release, besides level, mechanism and policy."""

    @classmethod
    def configured(
        cls,
        bundle: BundleConfig,
        privacy: PrivacyConfig,
        tagger: TaggerConfig,
        graphs: Graphs | None = None,
        hide: HideConfig | None = None,
    ) -> Engine:
        """Return the engine that the owner's settings describe."""
        return cls(
            bundle,
            privacy,
            lambda opened: open_tagger(opened, tagger),
            f"{tagger.backend} {tagger.pipeline}",
            graphs,
            hide,
        )

    def heed(self, hiding: Callable[[], Hiding]) -> None:
        """Take the owner's choices from a function, anew with each text."""
        self._hiding = hiding

    def hiding(self) -> Hiding:
        """Return the owner's present choices."""
        return self._hiding()

    def current(self) -> OpenBundle:
        """Return the bundle in use.

        If any of its files was touched, the bundle is opened and checked again.

        Raises:
            NotReady: there is no bundle.
            BundleMismatch, DataLoss: the bundle cannot be used.
        """
        with self._lock:
            if self._opened is None or self._moved(self._opened):
                bundle = open_current(self._config)
                memory.give_back()  # the peaks of the two parts must not coincide
                privatizer = Privatizer.of(
                    bundle,
                    tagger=partial(self._tagger, bundle),
                    unsure_below=self._unsure_below,
                    floors=self.floors,
                    graphs=self._graphs,
                    accept_unchecked=self._config.accept_unchecked,
                    hiding=self.hiding,
                    reader=partial(open_reader, bundle, self._finder),
                )
                self._opened = OpenBundle(bundle, privatizer, bundle.has_full_finder)
                memory.give_back()
            return self._opened

    def check_pulled(self) -> None:
        """Check that files can be added to the bundle in use.

        Raises:
            NotReady: it was installed as a package; or the owner linked it by hand, and a pull
                would move the owner's link.
        """
        bundle = self.current().bundle
        self.check_encoder_package()
        if in_use(self._config).origin is Origin.LINKED:
            raise NotReady(
                "the bundle in use was linked by hand, and lacks its encoder",
                fix=f"copy the encoder to {bundle.encoder_folder}, or use the cloud's bundle with "
                "`sotto pull --encoder`",
                subject="encoder",
            )

    def check_encoder_package(self) -> None:
        """Check that an installed bundle has its encoder, which another package brings.

        Raises:
            NotReady: it lacks the encoder.
        """
        found = in_use(self._config)
        if found.origin is Origin.INSTALLED and not (found.folder / ENCODER).is_dir():
            raise NotReady(
                "the installed bundle lacks its encoder, which comes in another package",
                fix=f"run `pip install {package(self._config.language)}-encoder`",
                subject="encoder",
            )

    def fetch_encoder(self, cloud: Cloud, progress: Callable[[int, int], None]) -> int:
        """Fetch the encoder of the bundle in use; return its size in bytes.

        Args:
            progress: receives the number of bytes present, and their total.

        Raises:
            NotReady: the bundle has no encoder, was linked by hand, or is no longer served.
            See `pull` for the other errors.
        """
        self.check_pulled()
        bundle = self.current().bundle
        try:
            pull(
                cloud,
                self._config,
                wanted=bundle.id,
                encoder=True,
                progress=lambda _, done, total: progress(done, total),
            )
        except NotFound as error:
            raise NotReady(
                "this device's bundle lacks its encoder, and the cloud now serves another bundle",
                fix="run `sotto pull --encoder`",
                subject="encoder",
            ) from error
        return sum(stored.bytes for stored in bundle.manifest.optional.values())

    def warm(self) -> None:
        """Do the work that the first text would wait for, if the bundle is usable.

        Privatises some words of the bundle's own list, which opens every part, and maps the arrays.
        This release is discarded, so it costs nothing.
        """
        try:
            opened = self.current()
            levels = opened.bundle.manifest.calibration.get(self._mechanism, {})
            setting = Setting(next(iter(levels), ""), self._mechanism)
            opened.privatizer.release(" ".join(opened.bundle.words[-WINDOW:]), setting)
            memory.give_back()
            opened.bundle.warm()
        except SottovoceError as error:
            _log.info("no bundle in use yet: %s", error.problem)

    def _moved(self, opened: OpenBundle) -> bool:
        bundle = opened.bundle
        try:
            same = os.path.samefile(self._config.current, bundle.folder)
        except OSError:  # there is no such link: the bundle may be an installed one
            same = bundle.folder == folder_in_use(self._config)
        return not same or bundle.changed() or bundle.has_full_finder != opened.full
