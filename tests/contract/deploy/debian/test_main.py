"""The command gives its output to the calling user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.debian.__main__ import hand_back


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away: run it as root")
def test_what_root_built_belongs_to_who_called_sudo(tmp_path: Path) -> None:
    built, outside = tmp_path / "build", tmp_path / "outside"
    (built / "wheels").mkdir(parents=True)
    outside.touch()
    (built / "wheels/one.whl").touch()
    (built / "link").symlink_to(outside)
    hand_back(built, {})
    assert built.stat().st_uid == 0
    hand_back(built, {"SUDO_UID": "54321", "SUDO_GID": "54322"})
    for path in (built, *built.rglob("*")):
        status = path.lstat()
        assert (status.st_uid, status.st_gid) == (54321, 54322), path
    assert outside.stat().st_uid == 0
