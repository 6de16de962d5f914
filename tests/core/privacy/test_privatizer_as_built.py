"""The privatizer over the bundle that was built: its tagger, its levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import SecureRandom
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.text.tagger import UPOS, OnnxTagger, Tags

STRONG = Setting(level="strong")

CountedWords = list[tuple[str, bool, str, int]]

NOTE = "Anna didn't see the  cold lake; she'll write to Dr. Marsh (a@b.org), 555-0142!\n"


def test_the_built_bundle_privatises_a_note(privatizer: Privatizer) -> None:
    release = privatizer.release(NOTE, STRONG)
    by_word = {NOTE[word.start : word.end]: word for word in release.words}
    assert by_word["Marsh"].protected
    assert by_word["Marsh"].tag == "PROPN"
    assert by_word["lake"].tag == "NOUN"
    assert not by_word["the"].protected
    assert "555-0142" not in release.text
    assert "a@b.org" not in release.text


def test_the_built_tagger_leaves_no_unsure_word_in_the_clear(
    bundle: Bundle, privatizer: Privatizer
) -> None:
    # Without verbs or context the tagger cannot know; a list of words is where it is least sure.
    pool = bundle.class_members("ADJ")
    words = [bundle.words[i] for i in np.random.default_rng(3).choice(pool, 400)]
    tags = OnnxTagger.load(bundle.tagger_folder).tag(words)
    unsure = [w for w, sure in zip(words, tags.confidence, strict=True) if sure < 0.7]
    assert unsure
    release = privatizer.release(" ".join(words), STRONG, SecureRandom())
    unsure_and_open = [
        word
        for word, sure in zip(release.words, tags.confidence, strict=True)
        if sure < 0.7 and not word.protected
    ]
    assert not unsure_and_open


class KnowsTheTags:
    """A tagger that was told the tags of the one document it will see, window after window."""

    tagset = UPOS
    reach = 0

    def __init__(self, tags: Sequence[str]) -> None:
        self._ids = np.array([UPOS.index(tag) for tag in tags], np.uint8)

    def tag(self, words: Sequence[str]) -> Tags:
        ids, self._ids = np.split(self._ids, [len(words)])
        return Tags(ids, np.ones(len(words), np.float32))


@pytest.mark.parametrize("mechanism", ["pct2t.v1", "t2t.v1"])
@pytest.mark.parametrize("level", ["strong", "balanced", "light"])
def test_a_level_replaces_the_share_its_manifest_states(
    bundle: Bundle, counted_words: CountedWords, level: str, mechanism: str
) -> None:
    """Running text through the whole engine. The six of these fail by chance once in 1,000."""
    policy = bundle.manifest.policies["default"]
    words, tags, counts = zip(
        *(
            (word, tag, count)
            for word, clitic, tag, count in counted_words
            if word in bundle.word_ids
            and clitic == (word in bundle.manifest.clitics)
            and (mechanism == "t2t.v1" or tag in policy)
        ),
        strict=True,
    )
    draws = 10_000
    weights = np.array(counts) / sum(counts)
    drawn = np.random.default_rng(8).choice(len(words), draws, p=weights)
    document = " ".join(words[i] for i in drawn)
    engine = Privatizer(bundle, KnowsTheTags([tags[i] for i in drawn]))
    release = engine.release(document, Setting(level, mechanism), np.random.default_rng(9))
    assert len(release.words) == draws
    assert all(word.protected for word in release.words)
    replaced = np.mean([word.replaced for word in release.words])
    stated = bundle.manifest.level(mechanism, level).replaced
    # A graph that misses the nearest word replaces a little more than exact search would.
    misses = 1 - min(
        found.recall.get(f"{mechanism}/{level}", 1.0) for found in bundle.manifest.classes.values()
    )
    # Binomial at alpha 1e-3 / 6, two-sided (z = 3.76), and 0.3 points for the manifest's own error.
    margin = 3.76 * np.sqrt(stated * (1 - stated) / draws) + 0.003
    assert stated - margin < replaced < stated + margin + misses
