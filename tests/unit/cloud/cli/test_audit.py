"""``sotto-cloud audit``: options, output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import main
from sottovoce.cloud.job import State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.training.dp_sgd import audit
from sottovoce.cloud.training.dp_sgd.audit import Bound
from tests.support.examples import RELEASE, examples


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "examples.tsv"
    rows = [f"{each.label}\t{each.text}" for each in examples(80)]
    file.write_text("\n".join(["label\ttext", *rows, ""]), encoding="utf-8")
    return file


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["audit", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_an_audit_from_the_command_line(table: Path, bert: str) -> None:
    asked = ("--input", table, "--method", "head", "--dp-epsilon", 2, "--canaries", 40)
    code, out, _ = run(*asked, "--backbone", bert, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["holds"]
    assert told["at_least"] <= told["claimed"] <= 2.0
    assert (told["examples"], told["canaries"], told["method"]) == (80, 40, "head")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[TrainingOptions]:
    """Settings that were audited; every claim is refuted."""
    seen: list[TrainingOptions] = []

    def found(rows: Any, options: TrainingOptions, *given: Any, **more: Any) -> audit.Audit:
        seen.append(options)
        return audit.Audit(1.0, 1e-5, Bound(1.5, 0.95, 40, 40, 36))

    monkeypatch.setattr(audit, "audit", found)
    return seen


def test_a_claim_that_is_refuted_ends_in_1(table: Path, asked: list[TrainingOptions]) -> None:
    code, out, _ = run("--input", table, "--dp-epsilon", 1)
    assert code == 1
    assert "REFUTED" in out
    assert "at least 1.50" in out


def test_the_settings_of_an_adapters_job(
    table: Path, tmp_path: Path, asked: list[TrainingOptions]
) -> None:
    database = SqliteDatabase(tmp_path / "state")
    options = TrainingOptions(method="prefix", dp_epsilon=4.0, virtual_tokens=7)
    jobs = Jobs(database)
    for tenant in ("acme", "beta"):
        Tenants(database).enroll(tenant)
    job = jobs.create("acme", "r", "topics", options, RELEASE)
    database.close()
    state = ("--input", table, "--state", tmp_path / "state")
    assert run(job.id, *state)[0] == 1
    assert asked == [options]
    code, _, told = run("topics", *state)  # its job has not succeeded
    assert code == 4
    assert "jobs list" in told
    assert len(asked) == 1
    assert job.state is not State.SUCCEEDED


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "line 1"),
        (b"text\tkind\na\tb\n", "line 1"),
        (b"text\tlabel\nno label\n", "line 2"),
        (b"text\tlabel\n\xff\tb\n", "UTF-8"),
    ],
)
def test_a_table_that_is_none_is_refused(content: bytes, what: str, tmp_path: Path) -> None:
    file = tmp_path / "examples.tsv"
    file.write_bytes(content)
    code, out, told = run("--input", file)
    assert (code, out) == (2, "")
    assert what in told
    assert "fix:" in told
