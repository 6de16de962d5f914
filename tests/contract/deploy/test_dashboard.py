"""The dashboard asks for metrics that exist, in a form that Grafana imports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from sottovoce.cloud.job import State
from sottovoce.cloud.jobs.queue import overview
from sottovoce.cloud.metrics import JobsCollector, Metrics, TrainerMetrics
from sottovoce.cloud.store.sqlite import SqliteDatabase
from tests.support.paths import ROOT

BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "dashboard.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
OF_PROMETHEUS = {"instance", "le"}
"""Labels that whoever collects adds, and that of a histogram's buckets."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """Labels of all samples that processes tell, by name."""
    models, trainer, jobs = Metrics(), TrainerMetrics(), CollectorRegistry()
    models.calls.labels("Predict", "OK").inc()
    database = SqliteDatabase(tmp_path_factory.mktemp("state"))
    jobs.register(JobsCollector(partial(overview, database)))
    found: dict[str, set[str]] = {}
    for registry in (models.registry, trainer.registry, jobs):
        told: list[Sample] = [s for family in registry.collect() for s in family.samples]
        for sample in told:
            found.setdefault(sample.name, set()).update(sample.labels)
    yield found
    database.close()


def test_every_metric_and_label_asked_for_is_told(samples: dict[str, set[str]]) -> None:
    assert len(QUERIES) > 20
    labels = set.union(OF_PROMETHEUS, *samples.values())
    for query in QUERIES:
        names = set(re.findall(r"\b(?:sottovoce|process)_\w+", query))
        assert names, query
        assert names <= samples.keys(), query
        used = set(re.findall(r"(\w+)!?=~?\"", query))
        for listed in re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", query):
            used |= set(listed.split(", "))
        assert used <= labels, query
    for panel in PANELS:
        for target in panel["targets"]:
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert shown <= labels, panel["title"]


def test_every_metric_of_ours_is_on_it(samples: dict[str, set[str]]) -> None:
    ours = {name for name in samples if name.startswith("sottovoce_")}
    ours -= {name for name in ours if name.endswith("_created")}
    asked = set(re.findall(r"\bsottovoce_\w+", " ".join(QUERIES)))

    def family(name: str) -> str:
        return re.sub(r"_(bucket|sum|count)$", "", name)

    assert {family(name) for name in ours} == {family(name) for name in asked}


def test_values_of_labels_are_those_there_are() -> None:
    told = " ".join(QUERIES)
    assert set(re.findall(r'state="(\w+)"', told)) <= {state.lower() for state in State}
    assert set(re.findall(r'role="(\w+)"', told)) <= {"serve", "replica", "front", "trainer"}


def test_it_has_the_shape_that_grafana_imports() -> None:
    assert BOARD.keys() >= {"uid", "title", "schemaVersion", "panels", "templating", "time"}
    assert "id" not in BOARD, "an instance gives its own"
    (source,) = BOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == (
        *("datasource", "datasource"),
        "prometheus",
    )
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"]
        refs = [target["refId"] for target in panel["targets"]]
        assert sorted(set(refs)) == refs
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


def test_it_is_one_that_files_speak_of() -> None:
    page = (ROOT / "docs" / "scaling.md").read_text("utf-8")
    assert "deploy/grafana/dashboard.json" in page
    assert Path(ROOT / "deploy" / "grafana" / "dashboard.json").is_file()
