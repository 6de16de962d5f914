"""Simulate many replicas and tenants: cache hits, latency and refusals of each routing policy.

Every replica and every tenant with its share (Zipf) is simulated. The simulation covers some
seconds of the whole cloud's calls, after as many calls of warm-up. Caches begin in their long-run
state, so no cache starts cold.

A replica answers calls one after the other, in ``1 / replica_calls`` seconds each; the rate
includes the effect of batching. Each call also takes ``pass_ms``. An adapter that is not in memory
is read first, once for all waiting calls, and blocks no other adapter's calls. The cache evicts the
least recently used adapter. A replica refuses a call when it, or the tenant, has too many open
calls.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["POLICIES", "Cloud", "Outcome", "simulate"]

POLICIES: Final = ("random", "tenant hash", "bounded hash")
_POINTS: Final = 64
"""Points of each replica on the ring."""
_PAST: Final = 16
"""Calls drawn for each place of a cache, so that the cache is in its long-run state."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """The simulated cloud.

    Attributes:
        devices: number of devices.
        calls_a_minute: calls of each device.
        tenants: number of tenants; each has one adapter.
        zipf: inequality of tenants: the n-th has 1 / n ** zipf of the first one's calls.
        replica_calls: maximum calls a second of a replica.
        load: mean share of that maximum; determines the number of replicas.
        cache: number of adapters that fit in a replica's memory.
        pass_ms: milliseconds of a call without waiting.
        read_ms: milliseconds to read an adapter that is not in memory.
        bound: maximum open calls of a replica, as a multiple of the mean.
        open_calls: open calls at which a replica refuses further ones.
        tenant_calls: the same limit for one tenant.
    """

    devices: int = 1_000_000
    calls_a_minute: float = 10.0
    tenants: int = 100_000
    zipf: float = 1.0
    replica_calls: float = 1_600.0
    load: float = 0.6
    cache: int = 3_400
    pass_ms: float = 8.0
    read_ms: float = 20.0
    bound: float = 1.5
    open_calls: int = 128
    tenant_calls: int = 32

    @property
    def calls(self) -> float:
        """Calls a second of all devices."""
        return self.devices * self.calls_a_minute / 60

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return max(1, math.ceil(self.calls / (self.replica_calls * self.load)))

    def shares(self) -> NDArray[np.float64]:
        """Each tenant's share of all calls: Float (tenants,)."""
        weights = np.arange(1, self.tenants + 1, dtype=np.float64) ** -self.zipf
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of a routing policy.

    Attributes:
        hits: share of answered calls whose adapter was in memory.
        refused: share of calls that were refused.
        p50, p99: latency of answered calls, in milliseconds.
        busiest: calls of the busiest replica, as a multiple of the mean.
        reads: adapters read a second, over all replicas.
        spilled: share of calls that left the tenant's hashed replica; None if none does.
    """

    hits: float
    refused: float
    p50: float
    p99: float
    busiest: float
    reads: float
    spilled: float | None


@dataclass(slots=True)
class _Replica:
    free: float = 0.0
    """Time at which the replica has answered all its calls."""
    open: int = 0
    cache: OrderedDict[int, float] = field(default_factory=OrderedDict)
    """Time at which each tenant's adapter is in memory."""
    own: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    calls: int = 0


class _Ring:
    """Consistent hashing: for each tenant, the order of the replicas that may serve it."""

    def __init__(self, replicas: int, tenants: int, draw: np.random.Generator) -> None:
        places = draw.random(replicas * _POINTS)
        order = np.argsort(places)
        self._points: list[float] = places[order].tolist()
        self._owners: list[int] = (order // _POINTS).tolist()
        self._at: list[float] = draw.random(tenants).tolist()
        self._replicas = replicas

    def home(self, tenant: int) -> int:
        """Return the tenant's hashed replica."""
        return self._owners[self._first(tenant)]

    def from_home(self, tenant: int, fits: Callable[[int], bool]) -> int:
        """Return the first replica from the hashed one on that ``fits``; else the hashed one."""
        first = self._first(tenant)
        for step in range(len(self._owners)):
            owner = self._owners[(first + step) % len(self._owners)]
            if fits(owner):
                return owner
        return self._owners[first]

    def _first(self, tenant: int) -> int:
        return bisect.bisect_left(self._points, self._at[tenant]) % len(self._points)


def simulate(
    cloud: Cloud,
    policy: str,
    calls: int,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Simulate ``calls`` counted calls, after as many calls of warm-up.

    Args:
        cloud: the simulated cloud.
        policy: one of `POLICIES`.
        calls: number of counted calls.
        seed: policies with the same seed get the same calls.
        progress: called now and then with the number of calls so far.

    Raises:
        ValueError: unknown policy.
    """
    if policy not in POLICIES:
        raise ValueError(f"no policy {policy!r}; there are {', '.join(POLICIES)}")
    draw = np.random.default_rng(seed)
    shares = cloud.shares()
    ring = _Ring(cloud.replicas, cloud.tenants, draw)
    home = [ring.home(tenant) for tenant in range(cloud.tenants)]
    replicas = [_Replica() for _ in range(cloud.replicas)]
    _fill(replicas, cloud, shares, None if policy == "random" else np.array(home), draw)
    # Of their own, so that every policy meets the same calls.
    arrivals = np.random.default_rng((seed, 1))
    tenants = arrivals.choice(cloud.tenants, 2 * calls, p=shares).tolist()
    times = np.cumsum(arrivals.exponential(1 / cloud.calls, 2 * calls)).tolist()
    drawn = arrivals.integers(cloud.replicas, size=2 * calls).tolist()
    running = _Running(cloud, replicas)
    spilled = 0
    for at in range(2 * calls):
        if at == calls:
            running.count()
            spilled = 0
        tenant, now = tenants[at], times[at]
        running.leave(now)
        if policy == "random":
            chosen = drawn[at]
        elif policy == "tenant hash":
            chosen = home[tenant]
        else:
            chosen = ring.from_home(tenant, running.has_room)
            spilled += chosen != home[tenant]
        running.take(tenant, replicas[chosen], now)
        if not at % 10_000:
            progress(at)
    share = spilled / calls if policy == "bounded hash" else None
    return running.outcome(times[-1] - times[calls - 1], share)


class _Running:
    """Open calls, by the time at which each ends."""

    def __init__(self, cloud: Cloud, replicas: list[_Replica]) -> None:
        self._cloud, self._replicas = cloud, replicas
        self._ends: list[tuple[float, int, int]] = []
        self._number = {id(replica): n for n, replica in enumerate(replicas)}
        self.count()

    def count(self) -> None:
        """Restart the counts."""
        self._late: list[float] = []
        self._refused = self._hits = self._reads = 0
        for replica in self._replicas:
            replica.calls = 0

    def leave(self, now: float) -> None:
        """Remove the calls that have ended by now."""
        while self._ends and self._ends[0][0] <= now:
            _, number, tenant = heapq.heappop(self._ends)
            replica = self._replicas[number]
            replica.open -= 1
            replica.own[tenant] -= 1
            if not replica.own[tenant]:
                del replica.own[tenant]

    def has_room(self, number: int) -> bool:
        """Check HAProxy's bound: fewer calls than the replica's share times ``bound``."""
        most = math.ceil(self._cloud.bound * (len(self._ends) + 1) / len(self._replicas))
        return self._replicas[number].open < most

    def take(self, tenant: int, replica: _Replica, now: float) -> None:
        """Send one call to a replica."""
        cloud = self._cloud
        replica.calls += 1
        if replica.open >= cloud.open_calls or replica.own.get(tenant, 0) >= cloud.tenant_calls:
            self._refused += 1
            return
        ready = replica.cache.get(tenant)
        if ready is None:
            self._reads += 1
            ready = replica.cache[tenant] = now + cloud.read_ms / 1000
            if len(replica.cache) > cloud.cache:
                replica.cache.popitem(last=False)
        else:
            self._hits += ready <= now
            replica.cache.move_to_end(tenant)
        # A call that waits for an adapter blocks no others; it queues once the adapter is read.
        work = 1 / cloud.replica_calls
        replica.free = max(replica.free, now) + work
        end = max(replica.free, ready + work) + cloud.pass_ms / 1000
        replica.open += 1
        replica.own[tenant] += 1
        heapq.heappush(self._ends, (end, self._number[id(replica)], tenant))
        self._late.append(end - now)

    def outcome(self, seconds: float, spilled: float | None) -> Outcome:
        """Summarise the counted calls of ``seconds``."""
        calls = [replica.calls for replica in self._replicas]
        p50, p99 = np.percentile(self._late, (50, 99)) * 1000
        return Outcome(
            hits=self._hits / len(self._late),
            refused=self._refused / sum(calls),
            p50=float(p50),
            p99=float(p99),
            busiest=max(calls) * len(calls) / sum(calls),
            reads=self._reads / seconds,
            spilled=spilled,
        )


def _fill(
    replicas: list[_Replica],
    cloud: Cloud,
    shares: NDArray[np.float64],
    homes: NDArray[np.int64] | None,
    draw: np.random.Generator,
) -> None:
    """Fill each cache with its long-run content."""
    everybody = np.arange(cloud.tenants)
    for number, replica in enumerate(replicas):
        own = everybody if homes is None else np.flatnonzero(homes == number)
        if not len(own):
            continue
        past = draw.choice(own, _PAST * cloud.cache, p=shares[own] / shares[own].sum())
        last, since = np.unique(past[::-1], return_index=True)  # since which each was asked for
        recent = last[np.argsort(since)][: cloud.cache]
        replica.cache = OrderedDict.fromkeys(recent[::-1].tolist(), 0.0)
