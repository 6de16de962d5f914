"""Size a cloud on paper: routing by simulation, all other needs by multiplication.

The simulation covers the replicas. The needs of balancer, database, store and network follow by
multiplication. All inputs can be changed; docs/scaling.md says which were measured.
"""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from bench import console
from bench.console import Figures, Table
from bench.scale.simulation import POLICIES, Cloud, simulate

__all__ = ["Need", "Prices", "add_inputs", "first", "measure", "needs", "tables"]

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


_SHARED = ("devices",)
"""Fields for which another part of the bench already has an option."""


def add_inputs(parser: ArgumentParser) -> None:
    """Add an option for every input, with its present value as the default."""
    parser.add_argument(
        "--counted", type=int, default=500_000, help="simulated calls for each policy"
    )
    for kind in (Cloud, Prices):
        group = parser.add_argument_group(f"{kind.__name__.lower()} of --simulate")
        for field in fields(kind):
            if field.name not in _SHARED:
                option = f"--{field.name.replace('_', '-')}"
                group.add_argument(option, type=type(field.default), default=field.default)


def _made(kind: Any, given: Namespace) -> Any:
    values = {field.name: getattr(given, field.name) for field in fields(kind)}
    return kind(**{name: value for name, value in values.items() if value is not None})


def measure(given: Namespace) -> Figures:
    """Simulate every policy, and size the other resources for each."""
    cloud: Cloud = _made(Cloud, given)
    prices: Prices = _made(Prices, given)
    found: Figures = {
        "inputs": {**asdict(cloud), **asdict(prices), "counted": given.counted, "seed": given.seed},
        "calls_a_second": cloud.calls,
        "replicas": cloud.replicas,
        "seconds_simulated": given.counted / cloud.calls,
        "policies": {},
        "needs": {},
    }
    with console.progress() as bar:
        for policy in POLICIES:
            task = bar.add_task(policy, total=2 * given.counted)

            def told(done: int, task: Any = task) -> None:
                bar.update(task, completed=done)

            outcome = simulate(cloud, policy, given.counted, given.seed, told)
            needed = needs(cloud, prices, outcome.reads)
            found["policies"][policy] = {
                **asdict(outcome),
                "cost_an_hour": sum(need.cost for need in needed),
            }
            found["needs"][policy] = [
                {**asdict(need), "devices": need.devices if need.devices < math.inf else None}
                for need in needed
            ]
            found["binds_first"] = asdict(first(needed))
    return found


def tables(found: Figures) -> Sequence[Table | str]:
    """Return the tables and the summary."""
    inputs, binds = found["inputs"], found["binds_first"]
    said = (
        f"{inputs['devices']:,} devices, {inputs['calls_a_minute']:g} calls a minute each: "
        f"{found['calls_a_second']:,.0f} a second for {inputs['tenants']:,} tenants, on "
        f"{found['replicas']} replicas. Every replica and tenant is simulated; time is the "
        f"sample: {inputs['counted']:,} calls of each policy are counted, "
        f"{found['seconds_simulated']:.1f} s of simulated time, after a warm-up of the same length."
    )
    routing = console.table(
        "routing",
        ["policy"],
        ["in memory", "refused", "p50 ms", "p99 ms", "busiest", "elsewhere", "reads/s", "$/hour"],
        [
            [
                policy,
                f"{one['hits']:.1%}",
                f"{one['refused']:.1%}",
                f"{one['p50']:.1f}",
                f"{one['p99']:.1f}",
                f"{one['busiest']:.1f}",
                None if one["spilled"] is None else f"{one['spilled']:.1%}",
                f"{one['reads']:,.0f}",
                f"{one['cost_an_hour']:,.0f}",
            ]
            for policy, one in found["policies"].items()
        ],
    )
    last = list(found["needs"])[-1]
    sizes = console.table(
        f"machines and costs, with {last}",
        ["what", "how much"],
        ["machines", "$/hour", "one is full at, devices"],
        [
            [
                need["what"],
                need["much"],
                need["units"] or None,
                f"{need['cost']:,.2f}",
                None if need["devices"] is None else f"{need['devices']:,.0f}",
            ]
            for need in found["needs"][last]
        ],
    )
    verdict = (
        f"What binds first: {binds['what']}, at {binds['devices']:,.0f} devices; one more machine "
        "does not mend it as things are built."
    )
    return [said, routing, sizes, verdict]
