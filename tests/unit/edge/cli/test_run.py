"""`sotto run`: a program finds the OpenAI endpoint in its environment, and ends as it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from sottovoce.edge.config import Config
from sottovoce.edge.http.endpoints import read_key
from tests.support.agent import configured, running


def sotto_run(config: Config, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    program = f"from sottovoce.edge.cli import main; main({['run', *command]!r})"
    settings = {
        "HOME": str(config.agent.state.parents[2]),
        "SOTTO_AGENT_LISTEN": config.agent.listen,
        "SOTTO_AGENT_STATE": str(config.agent.state),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_program_gets_address_and_key_and_keeps_its_exit_code(tmp_path: Path) -> None:
    config = configured(tmp_path, SOTTO_OPENAI_ADDRESS="127.0.0.1:0")
    code = (
        "import json, os, sys;"
        "print(json.dumps({n: v for n, v in os.environ.items() if 'OPENAI' in n or 'PROXY' in n}));"
        "print(sys.argv[1:]); sys.exit(7)"
    )
    with running(config):
        done = sotto_run(
            config, "--", sys.executable, "-c", code, "--model", "x", NO_PROXY="example.org"
        )
        key = read_key(config.agent.state)
        (told,) = sotto_run(config, "--json", NO_PROXY="*").stdout.splitlines()
    assert json.loads(told)["OPENAI_API_KEY"] == key
    assert json.loads(told)["NO_PROXY"] == "*"
    assert done.returncode == 7, done.stderr
    environment, arguments = done.stdout.splitlines()
    assert arguments == "['--model', 'x']"
    found = json.loads(environment)
    assert found["OPENAI_API_KEY"] == key
    assert found["OPENAI_BASE_URL"] == found["OPENAI_API_BASE"]
    assert found["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert found["OPENAI_BASE_URL"].endswith("/v1")
    assert found["NO_PROXY"] == "example.org,127.0.0.1,localhost,::1"


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert sotto_run(config).returncode == 2
    alone = sotto_run(config, "true")
    assert (alone.returncode, "sotto serve" in alone.stderr) == (3, True)
    with running(config):
        closed = sotto_run(config, "true")
    assert (closed.returncode, "--openai" in closed.stderr) == (3, True)


def test_a_program_that_is_not_there_is_not_run(tmp_path: Path) -> None:
    config = configured(tmp_path, SOTTO_OPENAI_ADDRESS="127.0.0.1:0")
    with running(config):
        missing = sotto_run(config, "no-such-program-anywhere")
    assert missing.returncode == 4
    assert "no-such-program-anywhere" in missing.stderr
