"""The trained attacker learns from context, resumes exactly, and never trains on judged texts."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.random import Generator
from scipy.stats import binomtest
from transformers import BertConfig, BertModel

from bench.attacks.bigram import Bigrams
from bench.attacks.channels import distances
from bench.attacks.interface import OPEN, Candidates, Floats, Releases, Seen, Sees
from bench.attacks.inversion import ContextMap, Map
from bench.attacks.kinds import KINDS, MORE, Budget, Split
from bench.attacks.reader import Reader, Trainer, View, Vocabulary
from bench.attacks.text import Ints
from bench.attacks.trained import Corpus, Ensemble, Trained

WORDS, BACK, NEAR, ALPHA = 24, 3, 5, 0.001
"""A hidden word is told by the open word three places before it, out of reach of bigrams."""
ETAS = np.array([3.0])


@dataclass(frozen=True)
class FarContext:
    """Noisy words of one class, between words that pass."""

    eta: float
    fault: str = ""
    mechanism: str = "made up"
    level: str = "-"
    sees: Sees = "word"

    @property
    def rows(self) -> Floats:
        rows = np.random.default_rng(0).normal(size=(2 * WORDS, 4)).astype(np.float32)
        found: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return found

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        return (Candidates.of(np.ones(WORDS), np.arange(WORDS, dtype=np.int32)),)

    def rates(self, group: int) -> tuple[float, ...]:
        return (self.eta,)

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        return -distances(self.rows[seen], self.rows[candidates.ids])

    def release(self, sentences: int, random: Generator) -> Releases:
        length = 2 * BACK
        passing = random.integers(WORDS, 2 * WORDS, (sentences, BACK))
        hidden = (passing - WORDS + 7) % WORDS
        other = random.random(hidden.shape) < 0.1
        hidden[other] = random.integers(0, WORDS, other.sum())
        true = np.hstack([passing, hidden]).reshape(-1).astype(np.int32)
        group = np.tile([OPEN] * BACK + [0] * BACK, sentences).astype(np.int32)
        symbols = true.copy()
        symbols[group == 0] = self._noised(hidden.reshape(-1), random)
        sentence = np.repeat(np.arange(sentences), length).astype(np.int32)
        return Releases(Seen(symbols, None, group, sentence), true)

    def _noised(self, hidden: Ints, random: Generator) -> Ints:
        """Return the nearest words of the class to noisy points, but for the fault."""
        rows = self.rows[:WORDS]
        eta = self.eta * (2 if self.fault == "half the noise" else 1)
        noise = random.standard_normal((len(hidden), 4))
        noise *= random.gamma(4, 1 / eta, (len(hidden), 1)) / np.linalg.norm(
            noise, axis=1, keepdims=True
        )
        noisy = (rows[hidden] + noise).astype(np.float32)
        apart = distances(noisy, rows)
        if self.fault == "a search among the true word's neighbours":
            apart[distances(rows, rows).argsort(axis=1).argsort(axis=1)[hidden] >= NEAR] = np.inf
        found = apart.argmin(axis=1).astype(np.int32)
        if self.fault == "drawn anew until in the class":
            outside = distances(noisy, self.rows).argmin(axis=1) >= WORDS
            if outside.any():
                found[outside] = self._noised(hidden[outside], random)
        return found


def unlisted(symbols: Ints) -> Floats:
    return np.zeros((0, 32), np.float32)


def trainer(channel: FarContext) -> Trainer:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=2,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    meaning = np.random.default_rng(1).normal(0, 0.3, (2 * WORDS, 32)).astype(np.float32)
    rates = np.full((1, 1), channel.eta, np.float32)
    vocabulary = Vocabulary(meaning, channel.rows, channel.candidates, rates, rates)

    def make(random: Generator, level: int) -> tuple[View, Ints]:
        found = channel.release(50, random)
        return View(found.seen, level, unlisted(found.seen.symbols)), found.true

    held = [make(np.random.default_rng(10_000), 0)]
    return Trainer(Reader(BertModel(config), vocabulary), make, 1, held)


def test_sentences_of_all_lengths_are_read_as_each_alone() -> None:
    reader = trainer(FarContext(3.0)).trained
    lengths, random = [7, 2, 40, 1, 9, 41, 8], np.random.default_rng(2)
    sentence = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    symbols = random.integers(0, 2 * WORDS, len(sentence)).astype(np.int32)
    group = random.integers(OPEN, OPEN + 2, len(sentence)).astype(np.int32)
    seen = Seen(symbols, None, group, sentence)
    with torch.no_grad():
        together = reader.read(View(seen, 0, unlisted(symbols)))
        for number in range(len(lengths)):
            which = np.flatnonzero(sentence == number)
            alone = reader.read(View(seen.part(which), 0, unlisted(symbols[which])))
            torch.testing.assert_close(together[which], alone, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def trained() -> Reader:
    learner = trainer(FarContext(3.0))
    for _ in learner.run(600, steps=300):
        pass
    return learner.trained


def right(attack: Map, seen: Releases) -> np.ndarray:
    found: np.ndarray = (attack.guess(seen.seen) == seen.true)[seen.seen.group != OPEN]
    return found


def better(one: np.ndarray, other: np.ndarray) -> float:
    """p of a sign test that ``one`` guesses no more than ``other``."""
    won, lost = int((one & ~other).sum()), int((other & ~one).sum())
    return float(binomtest(won, won + lost, alternative="greater").pvalue)


def test_it_reads_what_pairs_of_words_do_not_tell(trained: Reader) -> None:
    channel = FarContext(3.0)
    public, known, seen = (channel.release(300, np.random.default_rng(n)) for n in range(5, 8))
    counting = ContextMap(channel, Bigrams.of(public.true, 2 * WORDS), 0)
    reads = Trained(channel, trained, ETAS, unlisted)
    both = Ensemble(counting, reads)
    counting.fit(known)
    both.fit(known)
    single = Map(channel)
    assert better(right(reads, seen), right(single, seen)) < ALPHA
    assert better(right(both, seen), right(single, seen)) < ALPHA
    assert right(both, seen).mean() > right(reads, seen).mean() - 0.03


@pytest.mark.parametrize(
    "fault",
    [
        "half the noise",
        "a search among the true word's neighbours",
        "drawn anew until in the class",
    ],
)
def test_it_finds_a_broken_mechanism(trained: Reader, fault: str) -> None:
    found = [
        right(
            Trained(each, trained, ETAS, unlisted),
            each.release(1_500, np.random.default_rng(60_000)),
        )
        for each in (FarContext(3.0), FarContext(3.0, fault))
    ]
    n = len(found[0])
    assert binomtest(int(found[1].sum()), n, found[0].mean(), alternative="greater").pvalue < ALPHA


def test_other_noise_is_read_at_the_nearest_level(trained: Reader) -> None:
    level, times = trained.nearest(ETAS / 2)
    assert level == 0
    assert times == pytest.approx([0.5])


def test_a_resumed_training_reaches_the_same_state(tmp_path: Path) -> None:
    whole, first, second = (trainer(FarContext(3.0)) for _ in range(3))
    assert len([*whole.run(600, steps=6)]) == 6
    assert len([*first.run(600, steps=3)]) == 3
    first.judge()
    first.save(tmp_path / "some.pt")
    second.load(tmp_path / "some.pt")
    assert second.history == first.history
    assert len([*second.run(600, steps=6)]) == 3
    for one, other in ((whole.reader, second.reader), (whole.trained, second.trained)):
        for name, value in one.state_dict().items():
            assert torch.equal(value, other.state_dict()[name]), name
    assert (whole.step, whole.words) == (second.step, second.words)


def test_losses_under_other_noise_are_forgotten_when_training_goes_on(tmp_path: Path) -> None:
    louder, softer = trainer(FarContext(3.0)), trainer(FarContext(9.0))
    assert len([*softer.run(600, steps=2)]) == 2
    softer.judge()
    softer.save(tmp_path / "some.pt")
    wanted = louder.trained.etas.clone()
    louder.load(tmp_path / "some.pt")
    assert len(louder.history) == 1
    assert len([*louder.run(600, steps=3)]) == 1
    assert louder.history == []
    assert all(torch.equal(each.etas, wanted) for each in (louder.reader, louder.trained))


def test_releases_made_by_other_processes_give_the_same_steps() -> None:
    alone, helped = (trainer(FarContext(3.0)) for _ in range(2))
    helped.workers = 2
    assert [*alone.run(600, steps=5)] == [*helped.run(600, steps=5)]


def test_packed_weights_judge_as_the_trained_ones(tmp_path: Path) -> None:
    before, after = (trainer(FarContext(3.0)) for _ in range(2))
    assert len([*before.run(600, steps=60)]) == 60
    before.pack(tmp_path / "weights")
    untrained = after.judge()
    after.unpack(tmp_path / "weights")
    assert (after.step, after.words) == (before.step, before.words)
    lost = after.judge() - before.judge()
    assert abs(lost) < 0.05 * (untrained - before.judge())
    after.identity = "another bundle"
    with pytest.raises(ValueError, match="another bundle"):
        after.unpack(tmp_path / "weights")


def test_an_attacker_on_another_mechanism_starts_from_what_fits(tmp_path: Path) -> None:
    """The network keeps its knowledge of context, and measures closeness by other evidence."""
    before = trainer(FarContext(3.0))
    assert len([*before.run(600, steps=20)]) == 20
    before.pack(tmp_path / "weights")
    after = trainer(FarContext(9.0))
    after.start_from(tmp_path / "weights")
    wanted = before.trained.out.weight
    for network in (after.reader, after.trained):
        assert (network.out.weight - wanted).abs().max() < 0.02 * wanted.abs().max()
        assert network.log_rate.exp().item() == pytest.approx(9.0)
    hidden, symbols = torch.zeros(2, 32), np.array([1, 2], np.int32)
    plain = after.reader.scores(hidden, 0, 0, symbols)
    after.reader.evidence = lambda seen, group: np.zeros((len(seen), WORDS), np.float32)
    told = after.reader.scores(hidden, 0, 0, symbols)
    close = torch.cdist(after.reader.space[symbols.tolist()], after.reader.space[:WORDS])
    assert torch.allclose(plain, told - 9.0 * close, atol=1e-4)


def test_a_checkpoint_for_something_else_is_refused(tmp_path: Path) -> None:
    learner = trainer(FarContext(3.0))
    learner.save(tmp_path / "some.pt")
    learner.identity = "another bundle"
    with pytest.raises(ValueError, match="another bundle"):
        learner.load(tmp_path / "some.pt")


def test_training_ends_when_the_loss_no_longer_falls() -> None:
    learner = trainer(FarContext(3.0))
    learner.history = [[n, 0.0, 0.0, loss] for n, loss in enumerate((3, 2, 2.1, 2.2, 2.3))]
    assert learner.falling()
    learner.history.append([5, 0.0, 0.0, 2.4])
    assert not learner.falling()


def test_judged_texts_are_never_trained_on(tmp_path: Path) -> None:
    """Even where the folder offers them as public text, or twice among the texts of a kind."""
    budget = Budget(judged=48, fitted=16, known=10, words=3_000)
    for kind, ((file,), _) in [*KINDS.items(), *MORE.items()]:
        some = [
            f"{kind} text {n} " + " ".join(f"{kind}{n}x{w}" for w in range(12)) for n in range(12)
        ]
        _write(tmp_path / file, some)
    judged = [text for kind in KINDS for text in Split.of(tmp_path, kind, budget).judged]
    other = [f"anyone has text {n} " + " ".join(f"p{n}x{w}" for w in range(12)) for n in range(20)]
    (tmp_path / "public.txt").write_text("\n".join([*judged, *other]))
    secret = {
        word for text in judged for word in text.split() if "x" in word and "text" not in word
    }
    corpus = Corpus.read(tmp_path, budget, own=True)
    drawn = [corpus.draw(np.random.default_rng(n), 100) for n in range(200)]
    met = {word for texts in drawn for text in texts for word in text.split()}
    assert not met & secret
    assert any(word.startswith("p1x") for word in met)
    assert any(word.startswith("news") for word in met)
    without = Corpus.read(tmp_path, budget, own=False)
    assert not without.own


def _write(path: Path, texts: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    if ".conllu" in path.name:
        lines = [
            "".join(f"{n}\t{word}\t_\tNOUN\t_\n" for n, word in enumerate(text.split(), 1))
            for text in texts
        ]
        content = "\n".join(lines) + "\n"
    elif ".jsonl" in path.name:
        content = "".join(
            '{"tokens": ['
            + ", ".join(f'"{word}"' for word in text.split())
            + '], "ner_tags": []}\n'
            for text in texts
        )
    else:
        content = "text\tlabel\n" + "".join(f"{text}\t1\n" for text in texts)
    path.write_bytes(gzip.compress(content.encode()))
