"""Each role counts its own work."""

from __future__ import annotations

from urllib.request import urlopen

import pytest
from prometheus_client import generate_latest

from bench.live.testbed import free_address
from sottovoce.cloud.metrics import CallMetrics, Metrics, RoleMetrics, TrainerMetrics, expose
from sottovoce.core.errors import ConfigError


def names(metrics: RoleMetrics) -> set[str]:
    found = {family.name for family in metrics.registry.collect()}
    return {name for name in found if name.startswith("sottovoce")} - {"sottovoce_process"}


def test_each_role_has_the_counters_of_what_it_does() -> None:
    assert names(CallMetrics()) == {"sottovoce_calls"}
    assert names(Metrics()) > {"sottovoce_calls", "sottovoce_waiting_requests"}
    trainer = names(TrainerMetrics())
    assert all(name.startswith("sottovoce_trainer_") for name in trainer)
    assert not trainer & names(Metrics())


@pytest.mark.parametrize(
    ("metrics", "role"),
    [(Metrics("replica"), "replica"), (CallMetrics(), "front"), (TrainerMetrics(), "trainer")],
)
def test_a_process_says_which_role_it_has(metrics: RoleMetrics, role: str) -> None:
    value = metrics.registry.get_sample_value("sottovoce_process_info", {"role": role})
    assert value == 1


def test_every_outcome_is_there_before_the_first() -> None:
    told = generate_latest(TrainerMetrics().registry).decode()
    for outcome in TrainerMetrics.OUTCOMES:
        assert f'sottovoce_trainer_jobs_total{{outcome="{outcome}"}} 0.0' in told


def test_metrics_are_told_until_stopped_at_one_free_address() -> None:
    address = free_address()
    stop = expose(TrainerMetrics(), address)
    try:
        assert b"sottovoce_trainer_busy" in urlopen(f"http://{address}/metrics").read()
        for wrong in (address, "nonsense", "127.0.0.1:99999"):
            with pytest.raises(ConfigError, match="metrics") as caught:
                expose(Metrics(), wrong)
            assert "--metrics" in caught.value.fix
    finally:
        stop()
    expose(Metrics(), address)()  # it is free again


def test_two_servers_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.loads.inc()
    assert b"sottovoce_adapter_loads_total 1.0" in generate_latest(one.registry)
    assert b"sottovoce_adapter_loads_total 0.0" in generate_latest(other.registry)


def test_adapters_of_every_cache_are_counted_together() -> None:
    metrics = Metrics()
    for held in ((2, 100), (3, 50)):
        metrics.keeps(lambda held=held: held)
    assert metrics.registry.get_sample_value("sottovoce_adapters") == 5
    assert metrics.registry.get_sample_value("sottovoce_adapter_bytes") == 150
