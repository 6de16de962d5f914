"""Make the word list, the words of a backbone that a device may release, and their classes.

A released word must be one word to the device's cutter and unchanged by the backbone's normaliser.
Otherwise the released text would differ from the drawn words. The list begins with the whole tokens
of the backbone. Letters of other scripts stay out unless the frequency table has them. Vocabularies
of Latin script hold hundreds of these letters, and the letters hide words badly. A longer list goes
on with words of several tokens, in the order of `load_order`.

Mechanisms replace a word only by words of its class. T2T has a class for each part of speech.
`pct2t.v2` has a class for each reading of a word, by public counts, a tagger and lists of facts.
"""

from __future__ import annotations

import csv
import gzip
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from sottovoce.core.bundle.manifest import ANY, class_name
from sottovoce.core.errors import DataLoss, InvalidInput, NotReady
from sottovoce.core.privacy.attacker import counts_by_tag
from sottovoce.core.privacy.mechanisms.spherical import PCT2T2
from sottovoce.core.privacy.policies import POLICIES, Treatment
from sottovoce.core.text.frequencies import PublicReadings
from sottovoce.core.text.tagger import UPOS, Tagger
from sottovoce.core.text.word_classes import BY_TAG, READINGS, UNLISTED
from sottovoce.core.text.words import Kind, split
from sottovoce.models.frequencies import FrequencyTable

_AT_ONCE: Final = 4_096
"""Words that the tokenizer cuts together."""

ORDER: Final = "vocabulary/order.txt.gz"
"""Within the models folder: public words that name nobody, commonest first."""

_MARKERS = ("Ġ", "▁")
"""The space before a word in byte-level BPE and SentencePiece."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a bundle. The id of a word is its place.

    Attributes:
        words: normal forms: free words of one token in order of their tokens, then free words of
            several tokens, then clitics.
        tokens: the token ids of each word.
        clitic: Bools1d (words,).
        counts: Floats2d (words, tags), occurrences in public text by `UPOS` tag.
    """

    words: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    clitic: NDArray[np.bool_]
    counts: NDArray[np.float64]

    @property
    def basis(self) -> NDArray[np.bool_]:
        """Bools1d (words,): all words but the free words of several tokens.

        They make the privacy space. A longer list adds words to the same space.
        """
        single = np.array([len(ids) == 1 for ids in self.tokens])
        return single | self.clitic


def make_vocabulary(
    tokenizer: Tokenizer,
    table: FrequencyTable,
    *,
    limit: int | None = None,
    order: Sequence[str] = (),
) -> Vocabulary:
    """Return the word list of a backbone.

    Args:
        tokenizer: without padding and truncation.
        table: public word counts of the devices' language.
        limit: the most free words: whole words in order of their tokens, then words of ``order``.
            None for all whole words.
        order: more words, commonest first. A word stays out if the tokenizer does not know its
            letters or the device would not find it unchanged.

    Raises:
        InvalidInput: the vocabulary has too few whole words.
    """
    normal = normal_form(tokenizer)
    seen = set(table.words)
    free = {
        word: token
        for word, token in whole_words(tokenizer, normal, table.language.clitics)
        if _belongs(word) or table.language.normal_form(word) in seen
    }
    kept = list(free.items())[:limit]
    if len(kept) < 2:
        raise InvalidInput(
            "the backbone's vocabulary holds no whole words",
            fix="use a backbone whose tokenizer marks word starts: WordPiece, byte-level BPE or "
            "SentencePiece",
            subject="backbone",
        )
    attached = {word for word, flag in zip(table.words, table.clitics, strict=True) if flag}
    clitics = sorted(word for word in attached if normal(word) == word)
    more = dict(
        islice(
            _several_tokens(tokenizer, normal, order, {*free, *clitics}, table.language.clitics),
            max(0, (limit or 0) - len(kept)),
        )
    )
    pieces = [tokenizer.encode(word, add_special_tokens=False).ids for word in clitics]
    words = (*(word for word, _ in kept), *more, *clitics)
    clitic = np.arange(len(words)) >= len(kept) + len(more)
    return Vocabulary(
        words=words,
        tokens=(*((token,) for _, token in kept), *more.values(), *map(tuple, pieces)),
        clitic=clitic,
        counts=counts_by_tag(words, clitic, table),
    )


def normal_form(tokenizer: Tokenizer) -> Callable[[str], str]:
    """Return the function that gives a word's form in the list, the tokenizer's normaliser."""
    normalizer = tokenizer.normalizer
    if normalizer is None:
        return str.strip
    # Some SentencePiece models put their word-start mark in the normaliser.
    return lambda word: normalizer.normalize_str(word).replace("▁", " ").strip()


def whole_words(
    tokenizer: Tokenizer, normal: Callable[[str], str], clitics: Sequence[str] = ()
) -> Iterator[tuple[str, int]]:
    """Yield words of one token, with this token, in order of token ids.

    The device must cut the form as one word (no punctuation, no identifier), and find it unchanged.
    Of two tokens with one form, the first counts.
    """
    starts = _word_start(tokenizer)
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    done: set[str] = set()
    for token, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        if token in special or not starts(token):
            continue
        word = tokenizer.decoder.decode([token]).strip() if tokenizer.decoder else token
        if word and word not in done and normal(word) == word and _is_one_word(word, clitics):
            done.add(word)
            yield word, number


def _several_tokens(
    tokenizer: Tokenizer,
    normal: Callable[[str], str],
    order: Sequence[str],
    known: set[str],
    clitics: Sequence[str],
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the new words of ``order`` that have several tokens, with the tokens."""
    model = json.loads(tokenizer.to_str())["model"]
    unknown = model.get("unk_id", tokenizer.token_to_id(model.get("unk_token") or ""))
    for start in range(0, len(order), _AT_ONCE):
        words = [
            word
            for word in dict.fromkeys(order[start : start + _AT_ONCE])
            if word not in known and normal(word) == word and _is_one_word(word, clitics)
        ]
        known.update(words)
        pieces = tokenizer.encode_batch(words, add_special_tokens=False)
        for word, piece in zip(words, pieces, strict=True):
            if len(piece.ids) > 1 and unknown not in piece.ids:
                yield word, tuple(piece.ids)


def _word_start(tokenizer: Tokenizer) -> Callable[[str], bool]:
    """Return the function that decides whether a token begins a word, by the tokenizer's model."""
    model = json.loads(tokenizer.to_str())["model"]
    if model["type"] == "WordPiece":
        prefix = model["continuing_subword_prefix"]
        return lambda token: not token.startswith(prefix)
    vocabulary = tokenizer.get_vocab()
    marker = max(_MARKERS, key=lambda mark: sum(token.startswith(mark) for token in vocabulary))
    return lambda token: token.startswith(marker)


def _is_one_word(word: str, clitics: Sequence[str]) -> bool:
    cut = split(word, clitics)
    return len(cut) == 1 and cut[0].kind is Kind.WORD and not cut[0].clitic and cut[0].text == word


def _belongs(word: str) -> bool:
    """Return whether a form is Latin, ASCII or a currency sign. Others must be in the table."""
    if len(word) == 1:
        return word.isascii() or unicodedata.category(word) == "Sc"
    return all(
        unicodedata.name(character, "").startswith("LATIN ") or not character.isalpha()
        for character in word
    )


CLASS_TAGS: Final = tuple(tag for tag in UPOS if tag != "PUNCT")
"""Punctuation is never released as a word."""

Carriers = Sequence[Sequence[str | None]]
"""Neutral sentences around a word without counts, see `sottovoce.models.corpus`."""

_SHARE: Final = 0.05
_TIMES: Final = 2
CLOSED: Final = frozenset({"ADP", "AUX", "CCONJ", "DET", "PART", "PRON", "SCONJ"})
"""Parts of speech that take no new words. A slip of the tagger must not add to them."""
CLOSED_TIMES: Final = 20
"""Fewer occurrences of a word in a closed class count as slips."""

_FEWEST: Final = 4
"""A smaller class would reveal its words, so they are replaced among all words."""


def word_classes(
    vocabulary: Vocabulary, tagger: Tagger, carriers: Carriers
) -> dict[str, NDArray[np.int32]]:
    """Return the word ids of each class, ascending; first all free words, then all clitics.

    All free words and all clitics form the classes of T2T. A word belongs to its most frequent part
    of speech, and to others with at least 2 occurrences and 5 % of the total. Fewer than 20
    occurrences in a closed class count only for a word that was never met in an open class. For a
    word without counts the tagger decides, in the language's carrier sentences, in small letters
    and capitalised.
    """
    tagged = from_counts(vocabulary.counts)
    unseen = np.flatnonzero(~vocabulary.counts.any(axis=1) & ~vocabulary.clitic)
    tagged[unseen] = _from_tagger([vocabulary.words[word] for word in unseen], tagger, carriers)
    found: dict[str, NDArray[np.int32]] = {}
    for tag in (ANY, *CLASS_TAGS):
        tagged_so = tagged[:, UPOS.index(tag)] if tag != ANY else np.ones(len(tagged), np.bool_)
        for attached in (False, True):
            ids = np.flatnonzero(tagged_so & (vocabulary.clitic == attached)).astype(np.int32)
            if len(ids) >= _FEWEST or (tag == ANY and len(ids)):
                found[class_name(tag, attached)] = ids
    return found


def from_counts(counts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the tags of words by ``counts`` Floats2d (words, tags), as Bools2d."""
    totals = counts.sum(axis=1, keepdims=True)
    least = np.array([CLOSED_TIMES if tag in CLOSED else _TIMES for tag in UPOS])
    tagged: NDArray[np.bool_] = (counts >= least) & (counts >= _SHARE * totals)
    believed = np.where((counts >= least) | (least == _TIMES), counts, counts * 1e-9)
    top = believed.argmax(axis=1)
    met = np.flatnonzero(totals[:, 0])
    tagged[met, top[met]] = True
    return tagged


def tagger_votes(words: list[str], tagger: Tagger, carriers: Carriers) -> NDArray[np.float32]:
    """Return the tagger's confidence in each tag, summed over carriers: Floats3d (2, words, tags).

    The first axis is for words in small letters and for capitalised words.
    """
    votes = np.zeros((2, len(words), len(UPOS)), np.float32)
    for written in range(2):
        forms = [word.capitalize() if written else word for word in words]
        for carrier in carriers:
            place = carrier.index(None)
            text = [form if slot is None else slot for form in forms for slot in carrier]
            tags = tagger.tag(text)
            at = slice(place, None, len(carrier))
            votes[written, np.arange(len(words)), tags.ids[at]] += tags.confidence[at]
    return votes


def _from_tagger(words: list[str], tagger: Tagger, carriers: Carriers) -> NDArray[np.bool_]:
    """Return one or two tags a word, as Bools2d (words, tags)."""
    votes = tagger_votes(words, tagger, carriers)
    tagged = np.zeros((len(words), len(UPOS)), np.bool_)
    open_tags = [column for column, tag in enumerate(UPOS) if tag not in CLOSED | {"PUNCT"}]
    for written in range(2):
        best = votes[written][:, open_tags].argmax(axis=1)
        tagged[np.arange(len(words)), np.array(open_tags)[best]] = True
    return tagged


KINDS: Final = {
    **dict.fromkeys(("nationality", "religion", "ethnicity"), "ORIGIN"),
    **dict.fromkeys(("health", "sexuality", "politics", "crime", "money"), "FACT"),
    "number": "NUMBER",
    "question": "REFERENCE",
}
"""The reading that each kind of `load_facts` gives."""

FEWEST: Final = 100
"""The words of a smaller class are replaced among all words."""

_OF_TAG: Final = np.array([READINGS.index(BY_TAG[tag]) for tag in UPOS])


def load_facts(folder: Path) -> dict[str, str]:
    """Read the kind of each word from the ``.tsv`` files in ``folder``.

    Each file has a header, then a word in small letters and its kind a line.

    Raises:
        NotReady: there is no file.
        DataLoss: a file has another form, or a kind that is not in `KINDS`.
    """
    files = sorted(folder.glob("*.tsv"))
    if not files:
        raise NotReady(
            f"no list of facts in {folder}",
            fix="name the repository's models folder with --models; docs/languages.md says what"
            " the list of another language holds",
            subject="facts",
        )
    found: dict[str, str] = {}
    for file in files:
        try:
            with file.open(encoding="utf-8", newline="") as lines:
                rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
                if next(rows) != ["word", "kind"]:
                    raise ValueError("header")
                found |= {word: kind for word, kind in rows}  # noqa: C416 - each row must be two
        except (ValueError, StopIteration) as error:
            raise DataLoss(
                f"{file} is no list of words and kinds",
                fix="write the header word<TAB>kind, then a word and its kind a line",
                subject="facts",
            ) from error
    if unknown := sorted(set(found.values()) - set(KINDS)):
        raise DataLoss(
            f"{folder} names kinds that there are not: {', '.join(unknown)}",
            fix=f"use: {', '.join(KINDS)}",
            subject="facts",
        )
    return found


def load_order(models: Path) -> tuple[str, ...]:
    """Read the words of `ORDER`, commonest first, that extend the list of whole tokens.

    Raises:
        NotReady: the models folder has no such list.
        DataLoss: it cannot be read.
    """
    file = models / ORDER
    if not file.is_file():
        raise NotReady(
            f"no list of further words in {models}",
            fix="leave --words out, or write the words, commonest first, a line each, to"
            f" {ORDER} in the models folder",
            subject="words",
        )
    try:
        return (*gzip.decompress(file.read_bytes()).decode().split(),)
    except (OSError, EOFError, ValueError) as error:
        raise DataLoss(
            f"{file} cannot be read",
            fix="fetch it again, or write the words, a line each, and compress them with gzip",
            subject="words",
        ) from error


def word_readings(
    vocabulary: Vocabulary, tagger: Tagger, carriers: Carriers, facts: Mapping[str, str]
) -> NDArray[np.uint8]:
    """Return each word's place in `READINGS`: Ints1d (words,).

    A clitic is a CLITIC. A word of ``facts`` has the reading of its kind in `KINDS`. Any other word
    has its most frequent reading. Fewer than 20 occurrences count for a closed part of speech only
    if there are no others. For words without counts the tagger decides, in the language's carrier
    sentences.

    Args:
        vocabulary: the words, and their counts by part of speech.
        tagger: decides on words without counts.
        carriers: see `Language`.
        facts: kind by word, see `load_facts`.
    """
    closed = np.isin(np.array(UPOS), list(CLOSED))
    counts = np.where(closed & (vocabulary.counts < CLOSED_TIMES), 1e-9, 1) * vocabulary.counts
    unseen = np.flatnonzero(~counts.any(axis=1) & ~vocabulary.clitic)
    votes = tagger_votes([vocabulary.words[word] for word in unseen], tagger, carriers)
    counts[unseen] = np.where(closed, 0, votes.sum(axis=0))
    together = np.zeros((len(counts), len(READINGS)))
    np.add.at(together.T, _OF_TAG, counts.T)
    found: NDArray[np.uint8] = together.argmax(axis=1).astype(np.uint8)
    for place, word in enumerate(vocabulary.words):
        # Cased vocabularies list "German" and "german".
        if kind := facts.get(word) or facts.get(word.lower()):
            found[place] = READINGS.index(KINDS[kind])
    found[vocabulary.clitic] = READINGS.index("CLITIC")
    return found


def partition(found: NDArray[np.uint8], clitic: NDArray[np.bool_]) -> dict[str, NDArray[np.int32]]:
    """Return the word ids of each class of `pct2t.v2`, ascending, at most one class a word.

    Args:
        found: Ints1d (words,), see `word_readings`.
        clitic: Bools1d (words,). Clitics have their class already, the class of T2T.
    """
    mechanism = PCT2T2(1.0, READINGS)
    own = [mechanism.word_class(reading, False) for reading in READINGS]
    names = np.array(own)[found]
    classes = {
        name: np.flatnonzero((names == name) & ~clitic).astype(np.int32)
        for name in dict.fromkeys(own)
    }
    return {name: ids for name, ids in classes.items() if len(ids) >= FEWEST}


def shares(
    vocabulary: Vocabulary, found: NDArray[np.uint8], table: FrequencyTable
) -> dict[str, float]:
    """Return the share of running text of each reading and of unlisted words; sum 1.

    Args:
        found: Ints1d (words,), see `word_readings`.
    """
    met = np.bincount(found, vocabulary.counts.sum(axis=1), len(READINGS))
    total = float(table.counts.sum()) + sum(table.left_out.values())
    listed = dict(zip(READINGS, (met / total).tolist(), strict=True))
    return {**listed, UNLISTED: max(0.0, 1 - sum(listed.values()))}


def public_readings(
    table: FrequencyTable,
    listed: Iterable[str],
    order: Iterable[str],
    tagger: Tagger,
    facts: Mapping[str, str],
) -> tuple[PublicReadings, PublicReadings]:
    """Return the readings of public words that some policy does not draw.

    The first list is read for every bundle. It has the words of the default bundle. The second has
    the other words of longer bundles.

    Args:
        table: public counts. All its words get a reading.
        listed: more words, from the default bundle.
        order: words of longer bundles, see `load_order`.
        tagger: decides on words without counts.
        facts: kind by word, see `load_facts`.
    """
    attached = {word for word, flag in zip(table.words, table.clitics, strict=True) if flag}

    def read(words: tuple[str, ...]) -> PublicReadings:
        # A form that is a word and a clitic counts as a clitic, as in bundles.
        clitic = np.array([word in attached for word in words], np.bool_)
        counts = counts_by_tag(words, clitic, table)
        vocabulary = Vocabulary(words, ((),) * len(words), clitic, counts)
        found = word_readings(vocabulary, tagger, table.language.carriers, facts)
        by_reading = {
            reading: " ".join(words[place] for place in np.flatnonzero(found == number))
            for number, reading in enumerate(READINGS)
            if any(policy.table[reading] is not Treatment.DRAW for policy in POLICIES.values())
        }
        return PublicReadings(table.language.code, table.language.accents, by_reading)

    first = {*map(table.normal_form, listed), *table.words, *facts}
    rest = {*map(table.normal_form, order)} - first
    return read((*sorted(first),)), read((*sorted(rest),))
