"""An attacker with text of the kind uses its words, and fits the rate class by class."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from bench.attacks.channels import distances
from bench.attacks.interface import Candidates, Floats, Releases, Seen, Sees
from bench.attacks.inversion import Map
from bench.attacks.kinds import KINDS, MORE, Budget, InDomain, Split, attacked, broken
from bench.attacks.text import Ints
from sottovoce.core.privacy.policies import Setting

WORDS = 300
ETAS = (3.0, 24.0)


def test_a_prior_of_the_kind_is_half_public_and_half_its_own() -> None:
    nothing: Any = None
    ids = np.array([2, 5, 7], np.int32)
    public = Candidates(ids, np.log(np.array([0.5, 0.25, 0.25], np.float32)))
    counts = np.zeros(9, np.int32)
    counts[[5, 8]] = 3, 100  # the second is of another class
    mixed = InDomain(nothing, Setting(), counts=counts)._met(public)
    assert np.exp(mixed.log_prior) == pytest.approx([0.25, 0.625, 0.125])
    unmet = InDomain(nothing, Setting(), counts=np.zeros(9, np.int32))._met(public)
    assert (unmet.log_prior == public.log_prior).all()


@dataclass
class TwoClasses:
    """Two classes of the same points, one of which is much louder than the other."""

    mechanism: str = "made up"
    level: str = "-"
    sees: Sees = "vector"

    @property
    def rows(self) -> Floats:
        return np.random.default_rng(0).normal(0, 0.4, (WORDS, 4)).astype(np.float32)

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        weights = 10_000.0 / np.arange(1, WORDS + 1)
        return (Candidates.of(weights, np.arange(WORDS, dtype=np.int32)),) * 2

    def rates(self, group: int) -> tuple[float, ...]:
        return ETAS

    def send(self, ids: Ints, group: Ints, random: Generator) -> Floats:
        rows = self.rows[ids]
        lengths = random.gamma(4, 1, len(ids)) / np.array(ETAS)[group]
        noise = random.standard_normal(rows.shape)
        noise *= (lengths / np.linalg.norm(noise, axis=1))[:, None]
        return (rows + noise).astype(np.float32)

    def evidence(self, seen: Floats | Ints, candidates: Candidates) -> Floats:
        return -distances(seen, self.rows[candidates.ids])


def test_the_rate_is_fitted_class_by_class() -> None:
    channel, random = TwoClasses(), np.random.default_rng(1)
    ids = channel.candidates[0].draw(2_500, random)
    group = (np.arange(2_500) % 2).astype(np.int32)
    seen = Seen(np.full_like(ids, -1), channel.send(ids, group, random), group, group)
    attack = Map(channel)
    attack.fit(Releases(seen, ids))
    assert (attack.rate(0), attack.rate(1)) == ETAS
    right = attack.guess(seen) == ids
    one = Map(channel)  # unfitted: the last rate for both
    assert right[group == 0].mean() > (one.guess(seen) == ids)[group == 0].mean() + 0.03
    told = attacked(Map(channel), Releases(seen, ids), Releases(seen, ids), ("one", "two", "none"))
    each = {name: right[group == place].mean() for place, name in enumerate(("one", "two"))}
    assert told["classes"] == pytest.approx(each)
    assert told["success"] == pytest.approx(right.mean())


def test_a_kind_is_read_from_its_file(tmp_path: Path) -> None:
    (file,), read = KINDS["reviews"]
    place = tmp_path / file
    place.parent.mkdir()
    place.write_bytes(gzip.compress(b"text\tlabel\na fine film\t1\n"))
    assert [*read(tmp_path)] == ["a fine film"]


def test_judged_texts_fit_no_attacker(tmp_path: Path) -> None:
    """A large budget leaves most texts of a small kind to the attackers."""
    for (file,), _ in (KINDS["reviews"], MORE["reviews"]):
        place = tmp_path / file
        place.parent.mkdir(exist_ok=True)
        rows = "".join(f"{file} film {n}\t1\n" for n in range(40))
        place.write_bytes(gzip.compress(b"text\tlabel\n" + rows.encode()))
    sizes = []
    for budget in (Budget(judged=10, fitted=7), Budget()):
        split = Split.of(tmp_path, "reviews", budget)
        parts = [set(split.judged), set(split.fitted), set(split.others)]
        assert len(set.union(*parts)) == sum(map(len, parts)) == 80
        sizes.append([*map(len, parts)])
    assert sizes == [[4, 3, 73], [20, 5, 55]]


def test_a_name_is_held_against_the_worst_upper_end() -> None:
    def row(level: str, kind: str, high: float) -> dict[str, Any]:
        about = {"kind": kind, "level": level, "attack": "MAP", "name": 0.3}
        return about | {"success": high - 0.02, "ci": [high - 0.04, high]}

    rows = [row("strong", "news", 0.25), row("strong", "blogs", 0.29), row("x", "news", 0.31)]
    strong, other = broken(rows)
    assert strong.startswith("strong")
    assert "blogs" in strong
    assert strong.endswith("kept")
    assert other.endswith("broken")
