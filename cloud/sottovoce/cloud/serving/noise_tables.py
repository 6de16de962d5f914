"""How each noise-aware adapter reads the words it receives, found when the adapter is loaded.

Why it is here: such an adapter was trained on moved input embeddings and must be served with the
same ones. Which they are follows from what its description says: bundle, mechanism, eta, policy.
Adapters of the same release share a table while any of them is in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import torch

from sottovoce.cloud.job import Release
from sottovoce.cloud.models import noise_aware
from sottovoce.cloud.models.adapters import Adapter
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.noise_aware import NoiseTable, WordPlaces
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import BundleMismatch

__all__ = ["NoiseReader", "NoiseTables"]


@dataclass(frozen=True, eq=False)
class NoiseReader:
    """The table of one release, and where the words it speaks of are in a text."""

    table: NoiseTable
    places: WordPlaces


class NoiseTables:
    """Finds readers; safe to share between threads.

    Args:
        backbone: whose embeddings are moved.
        bundles: by id.
        cache: folder of tables, the one the trainer keeps them in.
        device: where tables go.
    """

    def __init__(
        self,
        backbone: LoadedBackbone,
        bundles: Mapping[str, Bundle],
        cache: Path | None,
        device: torch.device,
    ) -> None:
        self._backbone = backbone
        self._bundles = bundles
        self._cache = cache
        self._device = device
        self._places: dict[str, WordPlaces] = {}
        self._readers: WeakValueDictionary[Release, NoiseReader] = WeakValueDictionary()
        self._making: set[Release] = set()
        self._changed = threading.Condition()

    def of(self, adapter: Adapter) -> NoiseReader | None:
        """None for an adapter that reads words as they are.

        Raises:
            BundleMismatch: its bundle is not served. NotReady: that does not say how often its
            words are met.
        """
        if not adapter.origin.get("training", {}).get("noise_aware"):
            return None
        release = Release(**adapter.origin["release"])
        bundle = self._bundles.get(release.bundle_id)
        if bundle is None:
            raise BundleMismatch(
                "the adapter was trained with a bundle this cloud no longer serves",
                fix="customise again with the bundle it serves now (`sotto pull`)",
                subject="adapter",
            )
        with self._changed:
            while release in self._making:
                self._changed.wait()
            reader = self._readers.get(release)
            if reader is not None:
                return reader
            self._making.add(release)
        # A table that the trainer did not leave takes half a minute: others need not wait for it.
        try:
            table = noise_aware.table(bundle, release, self._backbone, self._cache)
            places = self._places.setdefault(bundle.id, WordPlaces(bundle))
            reader = NoiseReader(table.to(self._device), places)
        finally:
            with self._changed:
                if reader is not None:
                    self._readers[release] = reader
                self._making.remove(release)
                self._changed.notify_all()
        return reader
