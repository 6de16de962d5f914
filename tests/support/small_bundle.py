"""A small bundle that has all a real one has, over some hundred words: no build, no model.

It has classes with and without a graph, clitics, and a tokenizer saved with padding and truncation.
Its vectors are random; its levels are not calibrated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from sottovoce.core.bundle import manifest as bundles
from sottovoce.core.bundle import tokenizer as tokenizing
from sottovoce.core.bundle.folder import CARDS
from sottovoce.core.bundle.levels import EmbedLevel, Level
from sottovoce.core.privacy.mechanisms.spherical import PCT2T2
from sottovoce.core.privacy.policies import NAMES
from sottovoce.core.text.names import Found
from sottovoce.core.text.tagger import UPOS, Tags
from sottovoce.core.text.word_classes import BY_TAG, READINGS

DIMENSIONS = 8
UNSURE = "maybe"
"""The word the lexicon tagger is never sure of."""

LEXICON = {
    "NOUN": "letter river garden pond house doctor clinic cough fever lamp window carpet tree song "
    "bread water paper stone horse train city field winter summer morning evening table chair "
    "bridge market school film story plot actor scene music picture dinner coffee sugar salt",
    "PROPN": "anna marsh york paris berlin monday july orion delta",
    "VERB": "see find write send walk run take give hold read sing play buy sell eat drink open "
    "close love like hate watch leave reach carry",
    "AUX": "is are was were be been has have had will would can could do does did",
    "PRON": "i you he she it we they me him her us them there",
    "ADP": "in on at by with from to of for over under after before",
    "NUM": "one two three four five ten hundred",
    "SYM": "$ £ + =",
    "X": "oh hey",
    "DET": "the a an this that each every",
    "ADJ": "good bad small large cold warm quiet loud naive french english muslim",
    "ADV": "very quite never always here maybe",
    "CCONJ": "and or but",
    "PART": "not",
}
UNLISTED = {"ADJ": "gorgeous naïve war\u200bm wa\u0301rm"}
"""Words the lexicon tagger knows and the bundle does not list, or lists in another form."""
CLITICS = {"PART": "n't 's", "AUX": "'s 'll 're 've 'd 'm"}
MECHANISMS = ("pct2t.v2", "pct2t.v1", "t2t.v1")
FACTS = {"FACT": "cough fever clinic doctor", "ORIGIN": "french english muslim"}
"""What a word of the lexicon reads as whatever its part of speech."""


def reading(word: str) -> str:
    """The reading of a word of the small bundle: by the first tag that lists it."""
    for kind, words in FACTS.items():
        if word in words.split():
            return kind
    tag = next((tag for tag, words in LEXICON.items() if word in words.split()), None)
    return BY_TAG[tag] if tag else "CLITIC"


class LexiconFinder:
    """Finds names by a word list, and no others: "Mark" is a person, and a mark is none."""

    reach = 1
    NAMES: ClassVar = {"PERSON": "Anna Marsh Mark Rich", "PLACE": "York Paris Little Rock"}

    def alone(self, words: Sequence[str], ids: NDArray[np.int32]) -> NDArray[np.float32]:
        kinds = {word: kind for kind, names in self.NAMES.items() for word in names.split()}
        return np.array([[NAMES.index(kinds.get(word, ""))] for word in words], np.float32)

    def among(self, alone: NDArray[np.float32], looks: NDArray[np.uint8]) -> Found:
        return found(alone[:, 0].astype(int).tolist())


def found(kinds: Iterable[int]) -> Found:
    """Names of these kinds, found beyond doubt."""
    places = np.array(list(kinds), np.uint8)
    return Found(places, (places > 0).astype(np.float32))


class LexiconTagger:
    """Tags by a word list: a noun unless listed otherwise, and never sure of one word."""

    tagset = UPOS
    reach = 0

    def __init__(self) -> None:
        listed = [*LEXICON.items(), *UNLISTED.items(), *CLITICS.items()]
        self._tags = {word: tag for tag, words in listed for word in words.split()}

    def tag(self, words: Sequence[str]) -> Tags:
        names = [self._tags.get(word.lower().replace("’", "'"), "NOUN") for word in words]
        return Tags(
            ids=np.array([UPOS.index(name) for name in names], np.uint8),
            confidence=np.array([0.4 if w == UNSURE else 0.99 for w in words], np.float32),
        )


def write_small_bundle(folder: Path) -> None:
    """Writes the small bundle; the same bytes each time."""
    random = np.random.default_rng(7)
    free = {tag: words.split() for tag, words in LEXICON.items()}
    hung = {tag: words.split() for tag, words in CLITICS.items()}
    # Clitics last, as the format has it.
    words = [
        *sorted({w for group in free.values() for w in group}),
        *sorted({w for group in hung.values() for w in group}),
    ]
    number = {word: place for place, word in enumerate(words)}
    members = free | {tag + bundles.CLITIC: group for tag, group in hung.items()}
    members[bundles.ANY] = [w for group in free.values() for w in group]
    members[bundles.ANY + bundles.CLITIC] = [w for group in hung.values() for w in group]

    found = np.array([READINGS.index(reading(word)) for word in words], np.uint8)
    mechanism = PCT2T2(1.0, READINGS)
    for word in sorted({w for group in free.values() for w in group}):
        members.setdefault(mechanism.word_class(reading(word), False), []).append(word)

    (folder / CARDS).mkdir(parents=True)
    (folder / CARDS / "words.md").write_text("# Words\n\nRandom vectors.\n", encoding="utf-8")
    np.save(folder / "readings.npy", found)
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    space = random.standard_normal((len(words), DIMENSIONS)).astype(np.float32)
    space /= np.linalg.norm(space, axis=1, keepdims=True)
    tokenizer = _tokenizer(words)
    tokens = random.standard_normal((tokenizer.get_vocab_size(), DIMENSIONS))
    np.save(folder / "tokens.npy", tokens.astype(np.float32))
    saved, lines = tokenizing.without_vocabulary(tokenizer.to_str())
    assert lines is not None
    (folder / "tokenizer.json").write_text(saved, encoding="utf-8")
    (folder / tokenizing.VOCABULARY).write_text("".join(f"{t}\n" for t in lines), encoding="utf-8")

    classes, slices, offset = {}, [], 0
    for name, group in sorted(members.items()):
        ids = np.unique(np.array([number[word] for word in group], np.int32))
        ef = 200 if name in ("NOUN", bundles.ANY) else 0
        classes[name] = bundles.WordClass(offset, len(ids), ef, {})
        slices.append(ids)
        offset += len(ids)
    np.save(folder / "members.npy", np.concatenate(slices))
    np.save(folder / "rows.npy", space[np.concatenate(slices)])

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    levels = {name: _level(eta) for name, eta in (("strong", 4.0), ("balanced", 15.0))}
    levels["light"] = _level(10_000.0)  # noise too short to move any word
    manifest = bundles.Manifest(
        backbone=bundles.Backbone("small", "0" * 64, 16),
        language="en",
        dimensions=DIMENSIONS,
        words=len(words),
        tagset=UPOS,
        clitics=("n't", "'s", "'ll", "'re", "'ve", "'d", "'m"),
        classes=classes,
        calibration=dict.fromkeys(MECHANISMS, levels),
        curve=dict.fromkeys(MECHANISMS, tuple(levels.values())),
        embed={name: EmbedLevel(level.eta, 0.5) for name, level in levels.items()},
        files={
            str(path.relative_to(folder)): bundles.StoredFile(
                path.stat().st_size, bundles.sha256(path)
            )
            for path in files
        },
    )
    (folder / "manifest.json").write_bytes(manifest.to_json())


def _level(eta: float) -> Level:
    return Level(eta, 0.5, 0.5, 0.5, 0.5, 0.5)


def _tokenizer(words: Sequence[str]) -> Tokenizer:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = ["[PAD]", "[UNK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += [word for word in words if word not in pieces and word.isalpha()]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=pieces[1]))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    # As sentence encoders ship theirs: both would falsify a mean of token embeddings.
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(max_length=4)
    return tokenizer
