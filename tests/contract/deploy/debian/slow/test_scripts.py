"""The package's scripts, run on folders of the test's own."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from sottovoce.edge.cli import service
from tests.support.paths import ROOT

SCRIPTS = ROOT / "deploy/debian/scripts"
ME = pwd.getpwuid(os.geteuid()).pw_name
TOOLS = "adduser chown install py3clean py3compile deb-systemd-helper deb-systemd-invoke systemctl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a system root with tools that only log their calls."""
    for folder in ("etc/systemd/system", "etc/sottovoce", "var/lib/sottovoce", "usr/lib/sottovoce"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/sottovoce/agent.toml").touch()
    (tmp_path / "tools").mkdir()
    for tool in TOOLS.split():
        file = tmp_path / "tools" / tool
        file.write_text(f'#!/bin/sh\necho "{tool} $*" >>{tmp_path}/told\n')
        file.chmod(0o755)
    return tmp_path


def script(name: str, root: Path, *arguments: str, user: str = ME) -> tuple[int, str]:
    """Runs one on the files below `root`, where `user` is the agent's; exit code, complaints."""
    text = (SCRIPTS / name).read_text()
    for path in ("/etc/", "/var/", "/usr/lib/", "/run/"):
        text = text.replace(path, f"{root}{path}")
    if user != "sottovoce":
        text = text.replace(" sottovoce)", f" {user})")
    environ = {"PATH": f"{root}/tools:{os.environ['PATH']}"}
    command = ["sh", "-c", text, name, *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def told(root: Path) -> str:
    file = root / "told"
    return file.read_text() if file.exists() else ""


def test_state_goes_with_a_purge_alone(root: Path) -> None:
    state = root / "var/lib/sottovoce"
    (state / "ledger").touch()
    for when in ("remove", "upgrade", "failed-upgrade", "abort-install", "disappear"):
        assert script("postrm", root, when) == (0, "")
        assert (state / "ledger").exists(), when
    code, said = script("postrm", root, "purge", user="another")
    assert (code, (state / "ledger").exists()) == (0, True), "it is another's"
    assert f"belongs to {ME}, and stays" in said, "no key is left behind in silence"
    assert script("postrm", root, "purge") == (0, "")
    assert not state.exists()
    assert script("postrm", root, "purge") == (0, "")


def test_a_purge_empties_what_a_link_leads_to_and_no_disk_below(root: Path) -> None:
    state, disk = root / "var/lib/sottovoce", root / "disk"
    (disk / "state").mkdir(parents=True)
    (disk / "state/key").touch()
    (disk / "out").symlink_to(root / "etc")
    state.rmdir()
    state.symlink_to(disk)
    assert script("postrm", root, "purge") == (0, "")
    assert (state.is_symlink(), list(disk.iterdir())) == (False, [])
    assert (root / "etc").exists(), "what links below lead to is not the agent's"
    state.symlink_to(root / "none")
    code, said = script("postrm", root, "purge")
    assert (code, "leads nowhere" in said) == (0, True)


@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode
    != 0,
    reason="nothing may be mounted here: run it as root",
)
def test_a_purge_empties_a_disk_that_is_mounted_there(root: Path) -> None:
    state = root / "var/lib/sottovoce"
    purge = (SCRIPTS / "postrm").read_text().replace(" sottovoce)", f" {ME})")
    for path in ("/etc/", "/var/"):
        purge = purge.replace(path, f"{root}{path}")
    (root / "purge").write_text(purge)
    text = f"set -e; mount -t tmpfs tmpfs {state}; touch {state}/key; sh {root}/purge purge"
    environ = {"PATH": f"{root}/tools:{os.environ['PATH']}"}
    command = ["unshare", "--mount", "sh", "-c", f"{text}; ls -A {state}"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"sottovoce: {state} is empty, and stays: a disk's\n"


def test_the_agent_stops_before_its_files_are_others(root: Path) -> None:
    (root / "run/systemd/system").mkdir(parents=True)
    for when in ("upgrade", "remove", "deconfigure"):
        assert script("prerm", root, when) == (0, "")
        lines = told(root).splitlines()
        assert lines[0] == "deb-systemd-invoke stop sottovoce.service", when
        (root / "told").unlink()
    for when, other in (("configure", "0.1"), ("abort-upgrade", "0.2")):
        assert script("postinst", root, when, other) == (0, "")
        lines = told(root).splitlines()
        assert lines[-1] == "deb-systemd-invoke restart sottovoce.service", when
        compiled = [line for line in lines if line.startswith("py3compile ")]
        assert len(compiled) == 1, f"{when}: nobody else may write it there"
        (root / "told").unlink()


def test_settings_that_an_owner_took_away_hold_nothing_up(root: Path) -> None:
    (root / "etc/sottovoce/agent.toml").unlink()
    assert script("postinst", root, "configure") == (0, "")
    assert "deb-systemd-helper" in told(root)


def test_beside_another_agent_it_is_not_installed(root: Path) -> None:
    unit = root / "etc/systemd/system" / service.NAME
    assert script("preinst", root, "install") == (0, "")
    unit.write_text(service.packaged_unit(Path("/usr/bin/sotto")))  # by `systemctl edit --full`
    assert script("preinst", root, "install") == (0, "")
    unit.write_text(service.system_unit(Path("/usr/bin/sotto"), "nobody"))
    code, said = script("preinst", root, "install")
    assert code == 1
    assert "fix: take it away first: sotto service uninstall --system\n" in said
    assert script("preinst", root, "upgrade", "0.1") == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away: run it as root")
def test_beside_the_state_of_another_agent_it_is_not_installed(root: Path) -> None:
    os.chown(root / "var/lib/sottovoce", pwd.getpwnam("nobody").pw_uid, -1)
    code, said = script("preinst", root, "install")
    assert (code, "belongs to nobody" in said) == (1, True)


def test_whoever_has_the_users_name_is_checked(root: Path) -> None:
    assert script("postinst", root, "configure") == (0, "")
    assert "adduser --quiet --system --group" in told(root)
    (root / "told").unlink()
    for tool in ("adduser", "getent"):  # a person's: there, and refused
        file = root / "tools" / tool
        file.write_text(f"#!/bin/sh\n[ {tool} = getent ]\n")
        file.chmod(0o755)
    assert script("postinst", root, "configure")[0] == 1
    assert told(root) == "", "nothing is given to that user"


def test_a_second_attempt_follows_no_link_in_the_agents_folder(root: Path) -> None:
    guarded, settings = root / "guarded", root / "etc/sottovoce/agent.toml"
    guarded.touch(mode=0o600)
    settings.unlink()
    settings.symlink_to(guarded)
    if os.geteuid() == 0:
        os.chown(settings.parent, 54321, 54322)
    assert script("postinst", root, "configure") == (0, "")
    assert guarded.stat().st_mode & 0o777 == 0o600


def test_it_can_be_removed_when_its_files_are_gone_already(root: Path) -> None:
    (root / "tools/py3clean").write_text("#!/bin/sh\nexit 1\n")
    assert script("prerm", root, "remove") == (0, "")
    (root / "usr/lib/sottovoce").rmdir()
    assert script("prerm", root, "remove") == (0, "")
