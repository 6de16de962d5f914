"""`sotto service`: the written files, and the calls of systemctl in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.edge.cli import service

from .conftest import Device

SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$LOG"
[ "$ANSWER" = 0 ] || echo "no such bus" >&2
exit "$ANSWER"
"""


@pytest.fixture
def device(
    new_device: Callable[..., Device], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Device:
    """Return a device with a systemctl that logs its calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("systemctl", SYSTEMCTL), ("sotto", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setattr(service, "program", lambda: folder / "sotto")
    return new_device(PATH=f"{folder}:/bin:/usr/bin", LOG=str(tmp_path / "log"), ANSWER="0")


def _unit(device: Device) -> Path:
    return device.folder / "home/.config/systemd/user/sottovoce.service"


def test_it_is_installed_seen_and_taken_away(device: Device) -> None:
    (before,) = device.json("service", "status", code=3)
    assert (before["installed"], before["active"]) == (False, False)
    device.sotto("service", "install")
    assert f'ExecStart="{device.folder}/bin/sotto" serve' in _unit(device).read_text()
    assert f"SOTTO_CLOUD_TOKEN_FILE={device.folder}/token" in _unit(device).read_text()
    assert device.json("service", "status")[0]["active"] is True
    device.sotto("service", "uninstall")
    assert not _unit(device).exists()
    assert (device.folder / "log").read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable sottovoce.service",
        "--user restart sottovoce.service",
        "--user is-active --quiet sottovoce.service",
        "--user disable --now sottovoce.service",
        "--user daemon-reload",
    ]
    device.sotto("service", "uninstall", code=3)


def test_a_unit_is_printed_and_nothing_is_written(device: Device) -> None:
    shown = device.sotto("service", "install", "--print").stdout
    assert shown.count("[Service]") == 1
    (told,) = device.json("service", "install", "--print")
    assert told == {"file": str(_unit(device)), "unit": shown}
    assert not _unit(device).exists()
    assert (
        "User="
        in device.sotto("service", "install", "--system", "--run-as", "daemon", "--print").stdout
    )


def test_what_systemd_refuses_is_told(device: Device) -> None:
    device.environment["ANSWER"] = "1"
    told = device.sotto("service", "install", code=78).stderr
    assert "daemon-reload failed: no such bus" in told
    assert device.json("service", "status", code=3)[0]["installed"] is True


def test_where_there_is_no_systemd_nothing_is_written(device: Device) -> None:
    device.environment["PATH"] = str(device.folder)
    assert "sotto serve" in device.sotto("service", "install", code=78).stderr
    assert not _unit(device).exists()


def test_a_packages_unit_is_seen_and_left_to_the_package(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, packaged = tmp_path / "etc.service", tmp_path / "usr.service"
    manager = service.Manager(own, ("systemctl",), packaged)
    monkeypatch.setattr(service, "SYSTEM", manager)
    assert device.json("service", "status", "--system", code=3)[0]["installed"] is False
    packaged.write_text(service.packaged_unit(Path("/usr/lib/sottovoce/bin/sotto")))
    (told,) = device.json("service", "status", "--system")
    assert told == {"file": str(packaged), "installed": True, "active": True}
    for act in (["install", "--run-as", "daemon"], ["uninstall"]):
        refused = device.sotto("service", *act, "--system", code=3).stderr
        assert "belongs to a package" in refused
        assert "systemctl edit sottovoce" in refused
    assert not own.exists()


def test_what_an_owner_put_in_the_place_of_a_packages_unit_stays(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, packaged = tmp_path / "etc.service", tmp_path / "usr.service"
    monkeypatch.setattr(service, "SYSTEM", service.Manager(own, ("systemctl",), packaged))
    unit = service.packaged_unit(Path("/usr/lib/sottovoce/bin/sotto"))
    packaged.write_text(unit)
    acts = [["service", "install", "--run-as", "daemon"], ["service", "uninstall"]]
    own.symlink_to("/dev/null")  # `systemctl mask`
    for act in acts:
        assert "belongs to a package" in device.sotto(*act, "--system", code=3).stderr
    assert own.is_symlink()
    own.unlink()
    own.write_text(f"{unit}# changed\n")  # `systemctl edit --full`
    for act in acts:
        assert "belongs to a package" in device.sotto(*act, "--system", code=3).stderr
    assert own.read_text() == f"{unit}# changed\n"
    own.write_text(service.system_unit(Path("/opt/sotto"), "daemon"))  # ours, from before
    device.sotto("service", "uninstall", "--system")
    assert not own.exists()
