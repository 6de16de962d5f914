"""Finds the names of persons, places and organisations, on the device.

Why it is here: a name has no neighbours in meaning to hide among, so it is replaced by a random one
of its kind. The list's readings know most names; "Rich", "Little Rock" and "Bank of America" are
names by their surroundings only. The network sees the word itself in full, as hashed features of
its form, and of six words either side only their `looks`, which the release shows anyway: whatever
word one of them is exchanged for, as long as it looks the same, what is found here stays.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sottovoce.core.errors import BundleMismatch, DataLoss, NotReady
from sottovoce.core.text.looks import FIRST_WORD, LOOKS
from sottovoce.core.text.tagger import FEATURES, HASHES, FeatureSpec

__all__ = ["FORMAT", "KINDS", "WINDOW", "Found", "NameFinder"]

KINDS: Final = ("", "PERSON", "PLACE", "ORGANISATION", "OTHER")
"""What a word may name; the empty kind is no name."""

FORMAT: Final = "names.v1"
WINDOW: Final = 256
"""Words a run of the network sees at once: bounds the memory, whatever the document's length."""


@dataclass(frozen=True)
class Found:
    """What the words of a document name."""

    kinds: NDArray[np.uint8]
    """(n_words,) positions in `KINDS`, 0 for a word that is left as no name."""
    probability: NDArray[np.float32]
    """(n_words,) of being a name of any kind, 0 to 1; 0 for marks and identifiers."""


class NameFinder:
    """The name finder: `names.onnx` and its description `names.json` from one folder.

    Safe to share between threads.
    """

    def __init__(
        self, session: Any, spec: FeatureSpec, reach: int, thresholds: Sequence[float]
    ) -> None:
        self.reach = reach
        """How many words either side a word's kind may depend on, by their looks."""
        self._session = session
        self._spec = spec
        self._thresholds = np.array([0.0, *thresholds], np.float32)

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> Self:
        """Opens the finder in `folder`, on `threads` processor cores.

        Raises:
            NotReady: the folder holds no name finder.
            BundleMismatch: it is of a format this version does not read.
            DataLoss: the two files do not belong together, or one is damaged.
        """
        description, network = folder / "names.json", folder / "names.onnx"
        if not description.is_file() or not network.is_file():
            raise NotReady(
                f"no name finder in {folder}",
                fix="run `sotto pull` for a bundle that has one, or `sotto-cloud train-names`",
                subject="names",
            )
        model = network.read_bytes()
        try:
            told = json.loads(description.read_text("utf-8"))
            format_ = (told["format"], tuple(told["kinds"]), tuple(told["features"]))
            if (*format_, told["hashes"], told["looks"]) != (
                FORMAT,
                KINDS,
                FEATURES,
                HASHES,
                LOOKS,
            ):
                raise BundleMismatch(
                    f"the name finder in {folder} is not one this version can run",
                    fix="run `sotto pull` for a bundle made by the same version",
                    subject="names",
                )
            if hashlib.sha256(model).hexdigest() != told["sha256"]:
                raise ValueError("sha256")
            spec = FeatureSpec(tuple(told["rows"]), told["seed"])
            thresholds = [float(told["thresholds"][kind]) for kind in KINDS[1:]]
            if not all(0 < threshold <= 0.5 for threshold in thresholds):
                raise ValueError("thresholds")  # what is likelier a name than not never passes
            reach = int(told["reach"])
            if not 0 <= reach <= WINDOW:
                raise ValueError("reach")
        except (ValueError, KeyError, TypeError) as error:
            raise DataLoss(
                f"the name finder in {folder} is damaged: {error} in names.json does not fit",
                fix="run `sotto pull` again",
                subject="names",
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # an arena keeps 3 MB, and saves a twentieth of time
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return cls(session, spec, reach, thresholds)

    def find(self, words: Sequence[str], looks: NDArray[np.uint8]) -> Found:
        """What consecutive words of one document name.

        Long documents go through in windows that overlap by the reach of the network. How many
        words a window holds depends on the length of the document alone, and each row of the
        network's arithmetic on that row alone, so not one bit of a word's probability tells more
        of its neighbours than their looks.

        Args:
            words: their texts.
            looks: (n_words,) as `looks.looks` gives them.
        """
        kinds = np.zeros(len(words), np.uint8)
        probability = np.zeros(len(words), np.float32)
        rows, seen = self._spec.rows_of(words), looks.astype(np.int32)
        for start in range(0, len(words), WINDOW):
            end = min(start + WINDOW, len(words))
            first = max(0, start - self.reach)
            window = slice(first, min(len(words), end + self.reach))
            logits = self._session.run(None, {"rows": rows[window], "looks": seen[window]})[0]
            kinds[start:end], probability[start:end] = self._decide(
                logits[start - first : end - first]
            )
        none = looks < FIRST_WORD
        kinds[none], probability[none] = 0, 0
        return Found(kinds, probability)

    def _decide(self, logits: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """The likeliest kind of name, where any name is likelier than its threshold."""
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        named: NDArray[np.float32] = shares[:, 1:].sum(axis=1)
        best = 1 + shares[:, 1:].argmax(axis=1)
        return np.where(named >= self._thresholds[best], best, 0), named
