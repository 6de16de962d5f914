"""The strongest attackers on single words and on single tokens that we can build.

The attacker on noisy vectors (`sottovoce.core.privacy.attacker`) sees numbers that never leave
the device. It is the upper bound for attacks on one word. This attacker sees the released word,
which does leave. Levels are calibrated against both, and the demo uses this one. It ignores the
words around a word, so a language model may guess better.

In Split-and-Denoise every token gets a noisy vector, punctuation and parts of words too. So the
cloud's posterior and the attacker both need the frequencies of tokens. They come from the shipped
word counts, with the usual rates of punctuation and numbers. A device's own text is never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import EmbedLevel
from sottovoce.core.privacy import mechanisms, noise, policies
from sottovoce.core.privacy.attacker import (
    UNSEEN,
    Candidates,
    SphereMap,
    counts_by_tag,
    draw,
    released_in,
    weights_by_class,
    weights_by_reading,
)
from sottovoce.core.privacy.mechanisms.spherical import Mechanism
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.search import Search
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.models.frequencies import FrequencyTable

SLOPES: Final = (3.0, 4.5, 6.0, 7.5, 9.0, 12.0, 30.0)
"""Slopes that `best_slope` tries. The last one nearly always guesses the released word."""


def best_slope(
    attackers: Mapping[str, SphereMap],
    space: Floats2d,
    true: Mapping[str, NDArray[np.int32]],
    released: Mapping[str, NDArray[np.int32]],
) -> float:
    """Return the slope that guesses most of ``true`` from ``released``, ids by class."""
    hits = np.zeros(len(SLOPES), np.int64)
    for name, ids in true.items():
        guesses = attackers[name].behind_words(space[released[name]], *SLOPES)
        hits += (guesses == ids).sum(axis=1)
    return SLOPES[int(hits.argmax())]


class WordMapAttack:
    """Guesses original words from released words, with public knowledge only."""

    def __init__(
        self, bundle: Bundle, attackers: Mapping[str, SphereMap], slope: float, mechanism: Mechanism
    ) -> None:
        self._bundle = bundle
        self._attackers = attackers
        self._slope = slope
        self._mechanism = mechanism
        self._vectors = Vectors(bundle)
        self._clitics = frozenset(bundle.manifest.clitics)

    @classmethod
    def fit(
        cls,
        bundle: Bundle,
        frequencies: FrequencyTable,
        setting: Setting,
        draws: int = 2_000,
        seed: int = 0,
    ) -> Self:
        """Prepare an attack on releases under ``setting``.

        Args:
            bundle: public, so the attacker has it.
            frequencies: the attacker's knowledge of the language.
            setting: level, mechanism and policy of the releases.
            draws: words of running text to privatise for fitting the slope.

        Raises:
            NotFound: the bundle does not know the level, mechanism or policy.
        """
        manifest = bundle.manifest
        level = manifest.level(setting.mechanism, setting.level)
        mechanism = mechanisms.make(
            setting.mechanism, level, policies.find(setting.policy).with_noise()
        )
        clitic = np.isin(np.array(bundle.words), np.array(manifest.clitics))
        counts = counts_by_tag(bundle.words, clitic, frequencies)
        weights = (
            weights_by_class(counts, clitic, mechanism.tags)
            if mechanism.contextual
            else weights_by_reading(counts, bundle.readings, mechanism)
        )
        classes = {name: bundle.class_members(name) for name in manifest.classes}
        search = Search(bundle)
        random = np.random.default_rng(seed)
        attackers = {
            name: SphereMap.of(
                bundle.space, Candidates.of(each, classes[released_in(name, classes)])
            )
            for name, each in weights.items()
        }
        true = draw(weights, draws, random)
        released = {
            name: search.nearest(
                search.known_class(name),
                mechanism.perturb(bundle.space[ids], random, [name] * len(ids)),
                mechanism.eta_of(name),
            )
            for name, ids in true.items()
        }
        slope = best_slope(attackers, bundle.space, true, released)
        return cls(bundle, attackers, slope, mechanism)

    def guess(self, released_word: str, tag: str) -> str:
        """Return the likeliest original, in its listed form.

        The device releases an unlisted word unchanged, and so a word with a part of speech that the
        setting leaves alone. The guess is then the word itself.

        Args:
            released_word: as it stands in the released text.
            tag: its part of speech in the release's report. Some mechanisms ignore it.
        """
        form = self._vectors.normal_form(released_word)
        name = self._mechanism.word_class(tag, form in self._clitics)
        number = self._bundle.word_ids.get(form)
        if number is None or name not in self._attackers:
            return form
        row = self._bundle.space[number : number + 1]
        guess = self._attackers[name].behind_words(row, self._slope)
        return self._bundle.words[int(guess[0, 0])]


LEVELS: Final = {"strong": 0.3, "balanced": 0.5, "light": 0.7}
"""Share of the tokens of running text that the attacker recovers."""

_DRAWS: Final = 1_500
_CONFIRMING: Final = 6_000
_GRID: Final = np.geomspace(0.3, 6, 12)
"""Etas tried, in units of r / (mean distance of two tokens of running text)."""


def calibrate_tokens(
    space: Floats2d, log_prior: NDArray[np.float32], *, seed: int = 0
) -> Mapping[str, EmbedLevel]:
    """Return the levels, with the attacker's measured success at each.

    Args:
        space: Floats2d (tokens, r), rows of length 1.
        log_prior: Floats1d (tokens,), see `token_log_prior`.
        seed: of the simulation. The same seed gives the same levels.
    """
    sample = _sample(log_prior, _DRAWS, seed)
    spread = np.linalg.norm(space[sample] - space[np.roll(sample, len(sample) // 2)], axis=1)
    etas = _GRID * space.shape[1] / float(spread.mean())
    curve = [success(space, log_prior, float(eta), draws=_DRAWS, seed=seed) for eta in etas]
    rising = np.maximum.accumulate(curve)
    found = {}
    for name, wanted in LEVELS.items():
        eta = float(np.exp(np.interp(wanted, rising, np.log(etas))))
        reached = success(space, log_prior, eta, draws=_CONFIRMING, seed=seed + 1)
        found[name] = EmbedLevel(eta, reached)
    return found


def success(
    space: Floats2d,
    log_prior: NDArray[np.float32],
    eta: float,
    *,
    draws: int = _CONFIRMING,
    seed: int = 0,
) -> float:
    """Return the share of tokens of running text that the MAP attacker recovers at ``eta``."""
    sample = _sample(log_prior, draws, seed)
    random = np.random.default_rng(seed)
    steps = noise.draw(random, len(sample), space.shape[1], 1.0) / np.float32(eta)
    attack = SphereMap.of(space, Candidates(np.arange(len(space), dtype=np.int32), log_prior))
    return float(attack.confidence(space[sample] + steps, eta).mean())


def _sample(log_prior: NDArray[np.float32], n: int, seed: int) -> NDArray[np.int32]:
    shares = np.exp(log_prior.astype(np.float64))
    return draw({"": shares}, n, np.random.default_rng(seed))[""]


MARKS: Final = {
    ",": 62.4,
    ".": 49.9,
    '"': 19.0,
    "'": 9.0,
    "-": 12.9,
    ";": 5.3,
    "!": 4.7,
    "?": 4.6,
    ":": 2.8,
    "/": 2.2,
    "(": 1.5,
    ")": 1.5,
    "_": 0.7,
    "=": 0.5,
    "$": 0.5,
    "’": 0.5,
    "*": 0.4,
    "“": 0.3,
    "”": 0.3,
    "&": 0.3,
    "@": 0.2,
    ">": 0.2,
    "<": 0.2,
    "#": 0.1,
    "—": 0.1,
    "%": 0.1,
}
"""Punctuation and signs for every 1,000 words.

They were counted in the web treebank, a textbook, novels and speeches. The apostrophes of clitics
are counted with their words."""

NUMBERS: Final = 10.0
"""Tokens of digits for every 1,000 words in the same texts, shared among these tokens."""


def token_log_prior(tokenizer: Tokenizer, table: FrequencyTable) -> NDArray[np.float32]:
    """Return the log of each token's share of running text: Floats1d (tokens,).

    The shares sum to 1. The tokenizer cuts every counted word, and each token gets the word's
    count. Half an occurrence is added to each token, so none has probability 0. Special tokens are
    as improbable as tokens that were never met.
    """
    met: dict[str, float] = {}
    for word, clitic, count in zip(
        table.words, table.clitics.tolist(), table.counts.tolist(), strict=True
    ):
        # Most vocabularies write a word apart from the same letters inside or after another.
        form = word if clitic else f" {word}"
        met[form] = met.get(form, 0.0) + count
    thousands = sum(met.values()) / 1_000
    met |= {mark: rate * thousands for mark, rate in MARKS.items()}
    counts = np.full(tokenizer.get_vocab_size(), UNSEEN)
    pieces = tokenizer.encode_batch([*met], add_special_tokens=False)
    for piece, count in zip(pieces, met.values(), strict=True):
        np.add.at(counts, piece.ids, count)
    numbers = [i for token, i in tokenizer.get_vocab().items() if _is_number(token)]
    counts[numbers] += NUMBERS * thousands / max(1, len(numbers))
    log_shares: NDArray[np.float32] = np.log(counts / counts.sum()).astype(np.float32)
    return log_shares


def _is_number(token: str) -> bool:
    return token.lstrip("#Ġ▁").isdecimal()
