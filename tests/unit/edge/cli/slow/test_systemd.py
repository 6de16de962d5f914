"""systemd accepts our units, and the agent runs under their restrictions."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.rpc.address import answers
from sottovoce.edge.cli import service
from tests.support.agent import configured
from tests.support.paths import ROOT
from tests.support.waiting import until

ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSED = 2.0
_PR_SET_MDWE = 65

needs_systemd = pytest.mark.skipif(
    ANALYZE is None, reason="systemd-analyze is not here: apt-get install systemd"
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program in a folder with a name that systemd would misread unquoted."""
    folder = tmp_path / "a b 100%i"
    folder.mkdir()
    file = folder / "sotto"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def user() -> str:
    """Return an existing user other than root and nobody."""
    import pwd

    return next(u.pw_name for u in pwd.getpwall() if u.pw_uid > 0 and u.pw_name != "nobody")


def _analyzed(*arguments: str, runtime: Path) -> str:
    assert ANALYZE is not None
    done = subprocess.run(
        [ANALYZE, *arguments],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "SYSTEMD_LOG_LEVEL": "info"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@needs_systemd
def test_systemd_finds_nothing_wrong_with_a_users_unit(tmp_path: Path, program: Path) -> None:
    environ = {"HOME": "/home/a b", "SOTTO_CLOUD_ADDRESS": 'x"%i$HOME', "PATH": "/bin"}
    unit = tmp_path / service.NAME
    unit.write_text(service.user_unit(program, tmp_path / "a.toml", environ))
    assert _analyzed("verify", "--man=no", "--user", str(unit), runtime=tmp_path) == ""
    assert "PATH=" not in unit.read_text()


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_machines_and_hardly_any_exposure(
    tmp_path: Path, program: Path, user: str
) -> None:
    unit = tmp_path / service.NAME
    text = service.system_unit(program, user)
    unit.write_text(text)
    packaged = service.packaged_unit(program).replace(f"User={service.ACCOUNT}", f"User={user}")
    assert packaged.splitlines()[1:] == text.splitlines()[1:], "but for who wrote it"
    assert _analyzed("verify", "--man=no", str(unit), runtime=tmp_path) == ""
    said = _analyzed("security", "--no-pager", "--offline=true", str(unit), runtime=tmp_path)
    found = re.search(r"exposure level for \S+: ([0-9.]+)", said)
    assert found is not None
    assert float(found[1]) <= MOST_EXPOSED


def test_clear_text_reaches_no_disk_by_way_of_memory(program: Path) -> None:
    for unit in (service.packaged_unit(program), service.user_unit(program, None, {"HOME": "/a"})):
        assert {"LimitCORE=0", "MemorySwapMax=0"} <= set(unit.splitlines())


@pytest.mark.parametrize("name", ["root", "nobody-of-that-name"])
def test_the_machines_runs_as_a_user_who_is_there_and_not_root(program: Path, name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        service.system_unit(program, name)
    assert caught.value.subject == "run_as"
    assert "--run-as" in caught.value.fix


def test_what_a_user_has_set_is_taken_along() -> None:
    environ = {
        "HOME": "/home/ann",
        "XDG_STATE_HOME": "/data",
        "SOTTO_CLOUD_ADDRESS": "a.example.org",
        "OTHER": "1",
    }
    unit = service.user_unit(Path("/opt/sotto"), None, environ)
    kept = re.findall(r'^Environment="(.*)"$', unit, re.MULTILINE)
    assert kept == ["SOTTO_CLOUD_ADDRESS=a.example.org", "XDG_STATE_HOME=/data"]
    assert 'ExecStart="/opt/sotto" serve' in unit
    file = service.user_manager(environ).file
    assert file == Path("/home/ann/.config/systemd/user/sottovoce.service")


def test_settings_of_the_machine_are_settings(tmp_path: Path) -> None:
    from sottovoce.edge.config import load

    file = tmp_path / "agent.toml"
    file.write_text(service.settings_of_the_machine())
    config = load(file, {"HOME": str(tmp_path)})
    assert config.agent.listen == "unix:/run/sottovoce/agent.sock"
    assert config.agent.state == Path("/var/lib/sottovoce/state")
    assert config.bundle.path == Path("/var/lib/sottovoce/bundle")
    assert "edge/packaging/agent.toml" in file.read_text()
    assert (ROOT / "edge/packaging/agent.toml").exists()


def test_the_agent_runs_where_memory_cannot_be_written_and_executed(tmp_path: Path) -> None:
    """MemoryDenyWriteExecute=, by the kernel's own switch for it."""
    libc = ctypes.CDLL(None)
    config = configured(tmp_path)
    program = (
        "import ctypes, sys\n"
        f"refused = ctypes.CDLL(None).prctl({_PR_SET_MDWE}, 1, 0, 0, 0)\n"
        "if refused: sys.exit(77)\n"
        "from sottovoce.edge.cli import main; main(['serve'])"
    )
    assert libc is not None
    environ = {
        "SOTTO_AGENT_LISTEN": config.agent.listen,
        "SOTTO_AGENT_STATE": str(config.agent.state),
    }
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **environ})
    try:
        path = Path(config.agent.listen.removeprefix("unix:"))
        until(lambda: answers(path) or process.poll() is not None)
        if process.poll() == 77:
            pytest.skip("this kernel cannot forbid it to a process (Linux 6.3 can)")
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
