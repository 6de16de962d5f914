"""`sotto rotate-key`: later calls use a new key, and the ledger stays."""

from __future__ import annotations

from tests.support.agent import running

from .conftest import Device

TEXT = "letter river garden pond house doctor clinic cough fever lamp window carpet tree song"


def _released(device: Device) -> str:
    return device.sotto("privatize", "--level", "strong", stdin=TEXT).stdout


def test_a_new_key_draws_afresh_with_and_without_a_daemon(device: Device) -> None:
    first = _released(device)
    assert _released(device) == first
    assert device.json("rotate-key") == [{"epoch": 2}]
    second = _released(device)
    assert second != first
    with running(device.config):
        assert _released(device) == second
        assert "key 3" in device.sotto("rotate-key").stdout
        third = _released(device)
        assert third not in (first, second)
    assert _released(device) == third
    (status,) = device.json("status")
    assert (status["ledger"]["spent"], status["ledger"]["releases"]) == (3 * 14 * 4.0, 3)
    state = next(
        check for check in device.json("doctor", code=3)[0]["checks"] if check["check"] == "state"
    )
    assert "noise key 3" in state["detail"]
