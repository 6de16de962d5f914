"""Every table of `sotto-cloud` fits a narrow terminal, with the longest names allowed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import main
from sottovoce.cloud.job import Progress
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.store.opening import open_database
from sottovoce.cloud.tenants.credentials import Credentials
from sottovoce.cloud.tenants.tenants import Tenants
from sottovoce.core.bundle.folder import Bundle
from tests.support.jobs import claim, opened, queued
from tests.support.stores import FileStore

TENANT = "a-tenant-with-a-name-of-the-longer-kind"
DEVICE = "the-kitchen-device-with-a-long-name-" + "y" * 28


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory, small_bundle: Bundle) -> Path:
    """A cloud in which every table has a long row."""
    folder = tmp_path_factory.mktemp("wide")
    with opened(folder, FileStore()) as jobs:
        queued(jobs)
        _, lease = claim(jobs)
        queue = Queue(jobs.database)
        queue.report(lease, Progress(2, 8, 30, 120, 0.48, 0.31, 0.875, 6431.2, 5000.0), 300.0)
        Tenants(jobs.database).enroll(TENANT)
        with jobs.database.write() as transaction:
            transaction.change(
                "UPDATE jobs SET tenant = :tenant, adapter = :adapter",
                tenant=TENANT,
                adapter="7f" * 32,
            )
    with closing(open_database(folder, create=False)) as database:
        Credentials(database).new(TENANT, DEVICE, seconds=90 * 86400.0)
    shown = _run(folder, "bundles", "publish", str(small_bundle.folder))
    assert "published as" in shown
    return folder


def _run(state: Path, *arguments: str) -> str:
    places = {"SOTTO_CLOUD_STATE": str(state)}
    if arguments[0] == "bundles":  # which only a cloud of many machines has
        many = (state / "many").absolute()
        places = {"SOTTO_CLOUD_STATE": str(many), "SOTTO_CLOUD_OBJECTS": f"file://{many}/objects"}
    result = CliRunner().invoke(main, [*arguments], env=places)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (("jobs", "list"), {"ID", "TENANT", "STATE"}),
        (("tenants", "list"), {"NAME", "STATE", "TOKENS"}),
        (("tokens", "list"), {"NUMBER", "NAME", "STATE", "ENDS"}),
        (("limit", TENANT), {"LIMIT"}),
        (("audit-log",), {"WHEN", "WHAT", "TENANT"}),
        (("bundles", "list"), {"ID", "STATE", "SIZE"}),
        (("status",), {"JOB", "LEASE", "STEP"}),
    ],
)
def test_a_table_fits_and_keeps_what_matters(
    state: Path,
    columns: int,
    arguments: tuple[str, ...],
    kept: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = _run(state, *arguments).splitlines()
    assert [line for line in shown if len(line) > columns] == []
    assert any(kept <= set(line.split()) for line in shown)
