"""Compute what a cloud needs of each resource, its cost, and the first bottleneck.

The simulation covers the replicas. The needs of balancer, database, store and network follow by
multiplication. All inputs can be changed; docs/scaling.md says which were measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from bench.scale.simulation import Cloud

__all__ = ["Need", "Prices", "first", "needs"]

_HOURS: float = 730.0
"""Hours of a month."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Capacities and prices of the parts, in US dollars.

    Attributes:
        replica_cost: a replica, per hour.
        adapter_kb: size of an adapter.
        gets_an_adapter: store requests to read one adapter.
        get_cost: a million store requests.
        store_cost: a GB of storage, per month.
        database_reads: maximum reads a second of one server.
        reads_a_call: database reads of a call: two for its token, one for the adapter's name.
        database_cost: a database server, per hour.
        balancer_calls: maximum calls a second of one balancer.
        balancer_gb: memory of a balancer for connections.
        connection_kb: memory of a device's connection.
        balancer_cost: a balancer, per hour.
        call_kb: bytes of a call and its answer, with padding.
        network_cost: a GB of outgoing traffic, which consists of answers of ``answer_kb``.
        answer_kb: size of an answer.
        jobs_a_month: training jobs of a tenant.
        job_minutes: trainer minutes of a job.
        trainer_cost: a trainer, per hour.
    """

    replica_cost: float = 0.34
    adapter_kb: float = 300.0
    gets_an_adapter: float = 3.0
    get_cost: float = 0.40
    store_cost: float = 0.023
    database_reads: float = 60_000.0
    reads_a_call: float = 3.0
    database_cost: float = 0.80
    balancer_calls: float = 60_000.0
    balancer_gb: float = 32.0
    connection_kb: float = 60.0
    balancer_cost: float = 0.34
    call_kb: float = 2.5
    network_cost: float = 0.05
    answer_kb: float = 0.5
    jobs_a_month: float = 1.0
    job_minutes: float = 10.0
    trainer_cost: float = 0.34


@dataclass(frozen=True, slots=True)
class Need:
    """Need of one resource.

    Attributes:
        what: name of the resource.
        much: amount, in words.
        units: number of machines; 0 if it needs none.
        cost: cost per hour.
        devices: number of devices that fill one unit; infinite where devices do not fill it.
        multiplies: whether adding a unit adds capacity, in the present design.
    """

    what: str
    much: str
    units: int
    cost: float
    devices: float
    multiplies: bool = True


def needs(cloud: Cloud, prices: Prices, reads: float) -> list[Need]:
    """Return the needs of all resources, with ``reads`` adapters read a second."""
    calls = cloud.calls
    a_device = cloud.calls_a_minute / 60
    asked = calls * prices.reads_a_call
    connections = cloud.devices * prices.connection_kb / 1e6
    balancers = max(calls / prices.balancer_calls, connections / prices.balancer_gb)
    trained = cloud.tenants * prices.jobs_a_month * prices.job_minutes / 60
    stored = cloud.tenants * prices.adapter_kb / 1e6
    fetched = reads * prices.adapter_kb / 1e6
    trainers = max(1, math.ceil(trained / _HOURS / cloud.load))
    return [
        Need(
            "replicas",
            f"{calls:,.0f} calls/s",
            cloud.replicas,
            cloud.replicas * prices.replica_cost,
            cloud.replica_calls * cloud.load / a_device,
        ),
        Need(
            "database, reads",
            f"{asked:,.0f} reads/s",
            math.ceil(asked / prices.database_reads),
            math.ceil(asked / prices.database_reads) * prices.database_cost,
            prices.database_reads / prices.reads_a_call / a_device,
            multiplies=False,
        ),
        Need(
            "balancers, calls and connections",
            f"{cloud.devices:,} connections, {connections:,.0f} GB",
            math.ceil(balancers),
            math.ceil(balancers) * prices.balancer_cost,
            cloud.devices / balancers,
        ),
        Need(
            "store, reads of adapters",
            f"{reads:,.0f} adapters/s, {fetched:,.2f} GB/s",
            0,
            reads * prices.gets_an_adapter * 3600 / 1e6 * prices.get_cost,
            math.inf,
        ),
        Need(
            "store, adapters",
            f"{cloud.tenants:,} adapters, {stored:,.0f} GB",
            0,
            stored * prices.store_cost / _HOURS,
            math.inf,
        ),
        Need(
            "network",
            f"{calls * prices.call_kb * 8 / 1e6:,.1f} Gbit/s",
            0,
            calls * prices.answer_kb * 3600 / 1e6 * prices.network_cost,
            math.inf,
        ),
        Need(
            "trainers",
            f"{trained:,.0f} hours of training a month",
            trainers,
            trainers * prices.trainer_cost,
            math.inf,
        ),
    ]


def first(found: Iterable[Need]) -> Need:
    """Return the first bottleneck: the resource that fills soonest and cannot be multiplied."""
    return min((need for need in found if not need.multiplies), key=lambda need: need.devices)
