"""`sotto-cloud jobs list` in a narrow terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import main
from sottovoce.cloud.job import Progress
from sottovoce.cloud.jobs.queue import Queue
from tests.support.examples import RELEASE
from tests.support.jobs import claim, opened, queued
from tests.support.stores import FileStore

TENANT, ADAPTER = "a-tenant-with-a-long-name-" * 2, "7f" * 32


def test_80_columns_keep_level_and_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with opened(tmp_path, FileStore()) as jobs:
        identity = queued(jobs).id
        _, lease = claim(jobs)
        progress = Progress(2, 8, 30, 120, held_out_accuracy=0.875)
        Queue(jobs.database).report(lease, progress, 3.0)
        with jobs.database.write() as transaction:
            transaction.change("INSERT INTO tenants (name, created) VALUES (:name, 0)", name=TENANT)
            transaction.change(
                "UPDATE jobs SET tenant = :tenant, adapter = :adapter, state = 'SUCCEEDED'",
                tenant=TENANT,
                adapter=ADAPTER,
            )
    shown = CliRunner().invoke(main, ["jobs", "list", "--state", str(tmp_path)])
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["ID", "STATE", "TENANT", "ADAPTER", "LEVEL", "ACCURACY"]
    assert {identity, "succeeded", RELEASE.level, "87.5%"} <= set(lines[1].split())
    starts = [lines[0].index(name) for name in ("TENANT", "ADAPTER", "LEVEL")]
    for name, begin, end in zip((TENANT, ADAPTER), starts, starts[1:], strict=False):
        assert "".join(line[begin:end].strip() for line in lines[1:]) == name
    assert "Left out in 80 columns: progress, examples." in shown.stderr
