"""Makes edited text look like what people type on a phone, before the tagger learns from it.

Treebanks are cut and spelt with care; the device meets messages without capitals or full stops, cut
by `words.split`. Each epoch sees every sentence changed in another way, so that no tag comes to
depend on such signs alone.
"""

from collections.abc import Iterator, Sequence

from numpy.random import Generator

from sottovoce.core.privacy.surrogates import shape
from sottovoce.core.text import identifiers, words
from sottovoce.models.corpus import language
from sottovoce.models.corpus.treebanks import TAG_ID, Sentence

_CUT_AS_ON_DEVICE = 0.5
_NO_CAPITALS = 0.15
_ALL_CAPITALS = 0.03
_NO_FULL_STOP = 0.15
_OTHER_NUMBERS = 0.3
_LONGEST_PASSAGE = 8
_PUNCT = 1 << TAG_ID["PUNCT"]
_CLITICS = language.load("en").clitics
"""Both treebanks are English."""


def passages(sentences: Sequence[Sentence], random: Generator) -> Iterator[Sentence]:
    """Runs of one to eight consecutive sentences of one document, each changed at random."""
    start = 0
    while start < len(sentences):
        document = sentences[start].document
        end = start + int(random.integers(1, _LONGEST_PASSAGE + 1))
        chosen = [s for s in sentences[start:end] if s.document == document]
        changed = [_change(sentence, random) for sentence in chosen]
        yield Sentence(
            tuple(word for sentence in changed for word in sentence.words),
            tuple(allowed for sentence in changed for allowed in sentence.allowed),
            document,
        )
        start += len(chosen)


def _change(sentence: Sentence, random: Generator) -> Sentence:
    pairs = list(zip(sentence.words, sentence.allowed, strict=True))
    if random.random() < _CUT_AS_ON_DEVICE:
        pairs = [piece for word, allowed in pairs for piece in cut(word, allowed)]
    if random.random() < _NO_FULL_STOP and len(pairs) > 1 and pairs[-1][1] == _PUNCT:
        pairs.pop()
    if random.random() < _OTHER_NUMBERS:
        pairs = [
            (shape.fill(shape.layout(w), random) if identifiers.has_number(w) else w, a)
            for w, a in pairs
        ]
    case = random.random()
    if case < _NO_CAPITALS:
        pairs = [(word.lower(), allowed) for word, allowed in pairs]
    elif case < _NO_CAPITALS + _ALL_CAPITALS:
        pairs = [(word.upper(), allowed) for word, allowed in pairs]
    return Sentence(tuple(w for w, _ in pairs), tuple(a for _, a in pairs), sentence.document)


def cut(word: str, allowed: int, clitics: Sequence[str] = _CLITICS) -> list[tuple[str, int]]:
    """A treebank's word as the device would cut it: "Mr." -> "Mr", "."; with the tags allowed."""
    pieces = [] if word.isalpha() else words.split(word, clitics)
    if len(pieces) < 2 or allowed == _PUNCT:
        return [(word, allowed)]
    return [(p.text, _PUNCT if p.kind is words.Kind.PUNCTUATION else allowed) for p in pieces]
