"""Size a cloud on paper: routing by simulation, all other needs by multiplication."""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from bench import console
from bench.console import Figures, Table
from bench.scale.simulation import POLICIES, Cloud, simulate
from bench.scale.sizing import Prices, first, needs

__all__ = ["add_inputs", "measure", "tables"]

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
