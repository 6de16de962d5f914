"""Tags parts of speech with a spaCy pipeline, for languages that the default tagger lacks.

spaCy has pipelines for some thirty languages. It takes a hundred megabytes of memory and a second
to start. It is therefore an extra, imported only when it is chosen.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from sottovoce.core.errors import NotReady
from sottovoce.core.text.tagger import UPOS, Tags

__all__ = ["SpacyTagger"]

_TAG_ID: Final = {tag: position for position, tag in enumerate(UPOS)}
_UNKNOWN: Final = _TAG_ID["X"]
_PART: Final = 2_000
"""Words tagged at once."""
_NOT_NEEDED: Final = ("parser", "ner", "lemmatizer", "textcat", "senter")


class SpacyTagger:
    """A `Tagger` over an installed spaCy pipeline, or one in a folder.

    spaCy returns no probability. A word that it tags counts as certain. A word that it leaves
    untagged counts as unknown (X, confidence 0), which the default settings protect. Words are
    forgotten after each call.
    """

    tagset: tuple[str, ...] = UPOS
    reach = 16
    """The reach of the networks in spaCy's own pipelines, and some more."""

    def __init__(self, pipeline_name: str) -> None:
        """Load the pipeline named, or in the folder named, `pipeline_name`.

        Raises:
            NotReady: spaCy or the pipeline is not installed.
        """
        try:
            import spacy
        except ImportError as error:
            raise NotReady(
                "the tagger is set to spaCy, which is not installed",
                fix="run `pip install 'sottovoce-edge[spacy]'`",
                subject="tagger",
            ) from error
        try:
            self._pipeline = spacy.load(pipeline_name, exclude=_NOT_NEEDED)
        except OSError as error:
            raise NotReady(
                f"spaCy has no pipeline {pipeline_name!r}",
                fix=f"run `python -m spacy download {pipeline_name}`, or name an installed one",
                subject="tagger",
            ) from error
        self.language: str = self._pipeline.lang
        """BCP 47 code of the language it tags."""

    def tag(self, words: Sequence[str]) -> Tags:
        """Tag words, see `Tagger.tag`; documents longer than 2,000 words are tagged in parts."""
        from spacy.tokens import Doc

        names: list[str] = []
        for start in range(0, len(words), _PART):
            # Outside a memory zone the vocabulary would keep every word it ever met.
            with self._pipeline.memory_zone():
                part = Doc(self._pipeline.vocab, words=list(words[start : start + _PART]))
                names += [token.pos_ for token in self._pipeline(part)]
        ids = np.array([_TAG_ID.get(name, _UNKNOWN) for name in names], np.uint8)
        known = np.array([name in _TAG_ID for name in names], np.float32)
        return Tags(ids, known)
