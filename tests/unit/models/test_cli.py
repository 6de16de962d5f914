"""The builder's commands explain themselves, and fail with a reason and a fix."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sottovoce.core.bundle.encoder import DESCRIPTION, NETWORK, TABLE
from sottovoce.core.errors import NotReady
from sottovoce.models.cli import COMMANDS, main
from tests.support.backbones import tiny_bert, tiny_decoder


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.startswith("Usage:")
    assert "--json" in out


def test_the_provider_builds_bundles_by_a_command_of_its_own() -> None:
    from sottovoce.cloud.cli import main as theirs
    from sottovoce.models.cli.bundle import build_bundle as ours

    assert theirs.get_command(click.Context(theirs), "build-bundle") is ours


def test_without_the_builder_the_provider_learns_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sottovoce.cloud.cli import main as theirs

    monkeypatch.setitem(sys.modules, "sottovoce.models.cli.bundle", None)
    result = CliRunner().invoke(theirs, ["build-bundle", "--help"])
    assert result.exit_code == NotReady.exit_code
    assert "pip install sottovoce-models" in result.stderr


def test_names_are_learned_from_fakers_lists_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faker", None)
    code, _, err = run("train-names", "--data", tmp_path, "--out", tmp_path / "out")
    assert code not in (0, 1)
    assert "pip install faker" in err
    assert not (tmp_path / "out").exists()


def test_tagger_and_counts_name_missing_data(tmp_path: Path) -> None:
    for command in (
        ("train-tagger", "--data", tmp_path, "--out", tmp_path / "out"),
        ("count-words", "--data", tmp_path, "--out", tmp_path / "out", "--tagger", tmp_path),
    ):
        code, _, err = run(*command)
        assert code not in (0, 1)
        assert "fix:" in err


def test_export_writes_an_encoder_and_keeps_it_when_the_next_one_fails(tmp_path: Path) -> None:
    backbone, out = tiny_bert(tmp_path / "tiny"), tmp_path / "encoder"
    code, told, _ = run("export", "--backbone", backbone, "--out", out, "--json")
    assert code == 0
    found = json.loads(told)
    written = {file.name: file.read_bytes() for file in out.iterdir()}
    assert written.keys() == {DESCRIPTION, NETWORK, TABLE}
    assert found["bytes"] == sum(map(len, written.values()))
    assert found["max_difference"] < 1e-4
    assert found["cosine"] > 0.99
    code, _, err = run("export", "--backbone", tiny_decoder(tmp_path / "other"), "--out", out)
    assert code == 2
    assert "--exporter optimum" in err
    assert {file.name: file.read_bytes() for file in out.iterdir()} == written
