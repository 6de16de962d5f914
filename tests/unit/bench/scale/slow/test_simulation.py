"""The simulation agrees with known results, and shows the purpose of each policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from bench.scale.simulation import POLICIES, Cloud, Outcome, simulate

CALLS = 60_000
SMALL = Cloud(devices=40_000)
"""Seven replicas."""


def found(cloud: Cloud, policy: str, calls: int = CALLS, seed: int = 0) -> Outcome:
    return simulate(cloud, policy, calls, seed)


def che(cloud: Cloud) -> float:
    """Return the hit rate of an LRU cache for independent calls by Che's approximation (2002)."""
    shares = cloud.shares()
    since = brentq(lambda t: -np.expm1(-shares * t).sum() - cloud.cache, 1.0, 1e9)
    return float((shares * -np.expm1(-shares * since)).sum())


def test_random_routing_finds_what_one_cache_of_all_tenants_would() -> None:
    # The share of so many calls is within .01 of its mean but once in a million seeds.
    assert che(SMALL) == pytest.approx(0.63, abs=0.01)
    assert found(SMALL, "random").hits == pytest.approx(che(SMALL), abs=0.01)
    tight = replace(SMALL, cache=300, zipf=0.8)
    assert found(tight, "random").hits == pytest.approx(che(tight), abs=0.01)


def test_what_was_asked_for_last_is_what_stays() -> None:
    cloud = Cloud(devices=600, tenants=2, cache=1, read_ms=0.0)
    assert cloud.replicas == 1
    again = float(
        (cloud.shares() ** 2).sum()
    )  # 5 of 9; what never left would be found 3 or 6 times
    assert found(cloud, "random").hits == pytest.approx(again, abs=0.02)


def test_by_tenant_replicas_remember_together_what_one_of_their_room_would() -> None:
    together = che(replace(SMALL, cache=SMALL.cache * SMALL.replicas))
    assert found(SMALL, "tenant hash").hits == pytest.approx(together, abs=0.03)
    assert found(replace(SMALL, cache=SMALL.tenants), "tenant hash").hits == 1


@pytest.mark.parametrize("load", [0.4, 0.7])
def test_waits_are_those_of_a_queue_with_one_server(load: float) -> None:
    """Compared with Lindley's recursion: Poisson arrivals, equal work (M/D/1)."""
    cloud = Cloud(tenants=50, zipf=0.0, load=load, cache=50, pass_ms=0.0, open_calls=10**9)
    cloud = replace(cloud, devices=round(6 * load * cloud.replica_calls), tenant_calls=10**9)
    assert cloud.replicas == 1
    draw, work = np.random.default_rng(7), 1 / cloud.replica_calls
    waits, wait = [], 0.0
    for between in draw.exponential(1 / cloud.calls, 200_000):
        wait = max(0.0, wait + work - between)
        waits.append((wait + work) * 1000)
    outcome = found(cloud, "random", 200_000)
    for share, value in ((50, outcome.p50), (99, outcome.p99)):
        assert value == pytest.approx(np.percentile(waits, share), rel=0.06)


def test_a_hot_tenant_drowns_its_replica_by_hash_and_not_with_a_bound() -> None:
    large = Cloud(devices=400_000)
    hashed, bounded, random = (found(large, p) for p in ("tenant hash", "bounded hash", "random"))
    assert hashed.refused > 0.05
    assert hashed.busiest > 4
    assert (bounded.refused, random.refused) == (0, 0)
    assert bounded.busiest < 2
    assert bounded.spilled is not None
    assert 0 < bounded.spilled < 0.5
    assert hashed.hits > bounded.hits > random.hits + 0.2
    assert hashed.spilled is random.spilled is None


def test_who_waits_for_an_adapter_is_late_by_that_and_nobody_else() -> None:
    slow = replace(SMALL, read_ms=500.0)
    outcome = found(slow, "random")
    assert outcome.p50 < 15
    assert outcome.p99 == pytest.approx(500 + slow.pass_ms + 1000 / slow.replica_calls, abs=1)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_seed_says_all(policy: str) -> None:
    assert found(SMALL, policy, 3_000) == found(SMALL, policy, 3_000)
    assert found(SMALL, policy, 3_000) != found(SMALL, policy, 3_000, seed=1)
