"""A file may hold command-line options; the environment and the command line override it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import COMMANDS, defaults, main, read
from sottovoce.cloud.cli.serve import serve
from sottovoce.core.errors import NotFound
from tests.support.stores import ServerStore


def written(folder: Path, text: str) -> Path:
    file = folder / "cloud.toml"
    file.write_text(text)
    return file


def run(*arguments: str | Path, **environment: str) -> tuple[int, str]:
    ran = CliRunner().invoke(main, [*map(str, arguments)], env=environment)
    return ran.exit_code, ran.output


def tenants(state: Path) -> set[str]:
    known = {"acme", "other", "third"}
    return {name for name in known if run("limit", name, "--state", state)[0] == 0}


def test_the_file_gives_way_to_the_environment_and_that_to_the_command_line(
    tmp_path: Path,
) -> None:
    by_file, by_environment, by_flag = (tmp_path / name for name in ("file", "env", "flag"))
    config = written(tmp_path, f'state = "{by_file}"\n')
    environment = {"SOTTO_CLOUD_STATE": str(by_environment)}
    assert run("--config", config, "enroll", "acme")[0] == 0
    assert run("--config", config, "enroll", "other", **environment)[0] == 0
    assert run("--config", config, "enroll", "third", "--state", by_flag, **environment)[0] == 0
    assert run("enroll", "third", SOTTO_CLOUD_CONFIG=str(config))[0] == 0
    found = [tenants(state) for state in (by_file, by_environment, by_flag)]
    assert found == [{"acme", "third"}, {"other"}, {"third"}]


def test_commands_within_a_group_are_meant_too(tmp_path: Path) -> None:
    config = written(tmp_path, f'state = "{tmp_path / "s"}"\n[jobs]\njson = true\n')
    assert run("--config", config, "enroll", "acme")[0] == 0
    code, output = run("--config", config, "jobs", "list")
    assert (code, json.loads(output)) == (0, {"jobs": []})


def test_a_groups_table_fits_all_its_commands_together(tmp_path: Path) -> None:
    table = '[jobs]\ntenant = "acme"\njson = true\n'
    config = written(tmp_path, f'state = "{tmp_path / "s"}"\n{table}')
    assert run("--config", config, "enroll", "acme")[0] == 0
    code, output = run("--config", config, "jobs", "list")  # which alone has --tenant
    assert (code, json.loads(output)) == (0, {"jobs": []})
    code, output = run("--config", config, "jobs", "show", "none")
    assert (code, "no option" in output) == (NotFound.exit_code, False)
    config.write_text("[jobs]\ntenants = 1\n")
    assert run("--config", config, "jobs", "list")[0] == 78


def given(arguments: list[str], **table: Any) -> dict[str, Any]:
    """What `serve` understands of the command line and a table."""
    found = defaults(serve, "serve", {"serve": {"bundle": "b", **table}})
    return serve.make_context("serve", arguments, default_map=found).params


def test_every_kind_of_option_is_taken_from_a_table() -> None:
    table = {"limit-examples": 7, "insecure-plaintext": True, "bundle": ["x", "y"]}
    params = given([], **table)
    assert (params["limit_examples"], params["insecure_plaintext"]) == (7, True)
    assert params["bundles"] == (Path("x"), Path("y"))
    assert given([])["bundles"] == (Path("b"),)
    assert given(["--limit-examples", "9"], **table)["limit_examples"] == 9


@pytest.mark.parametrize(
    "text",
    [
        "backbone = 'x'",
        "[bake]",
        "[serve]\nlisten-to = ':1'",
        "state =",
        "\udcff",
        "[enroll]\nx = 1",
    ],
)
def test_what_the_file_cannot_mean_is_refused_and_not_quoted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cloud.toml"
    file.write_text(f"# secret\n{text}\n", errors="surrogateescape")
    command = "serve" if "[serve]" in text else "enroll"
    code, output = run("--config", file, command, "acme", "--state", tmp_path / "s")
    assert (code, "fix:" in output, "secret" in output) == (78, True, False)
    assert not (tmp_path / "s").exists()


def test_the_place_of_a_slip_is_named(tmp_path: Path) -> None:
    file = tmp_path / "cloud.toml"
    file.write_text('state = "s"\nstore = secret\n')
    code, output = run("--config", file, "enroll", "acme")
    assert (code, "line 2, column 9" in output, "secret" in output) == (78, True, False)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, output = run("--config", tmp_path / "none.toml", "enroll", "acme")
    assert (code, "none.toml" in output) == (78, True)


@pytest.mark.server
def test_the_store_may_stand_in_the_file(tmp_path: Path, postgres: Any) -> None:
    url = ServerStore(postgres).url(tmp_path)
    state = tmp_path / "s"
    config = written(tmp_path, f'state = "{state}"\nstore = "{url}"\n')
    assert run("--config", config, "enroll", "acme")[0] == 0
    assert not (state / "sottovoce.db").exists()
    assert run("limit", "acme", "examples=5", "--state", state, "--store", url)[0] == 0
    _, output = run("--config", config, "limit", "acme", "--json")
    assert json.loads(output)["limits"] == {"examples": 5}
    assert read(config, COMMANDS)["store"] == url
