"""What root does in folders of others."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from sottovoce.core.platform.files import as_owner_of


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another: run it as root")
def test_root_is_the_owner_of_the_topmost_folder_that_is_not_its_own() -> None:
    before = os.geteuid(), os.getegid(), os.getgroups()
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders let nobody else in
        theirs = Path(name, "theirs")
        for folder, owner in ((theirs, 54321), (theirs / "inner", 0), (Path(name, "ours"), 0)):
            folder.mkdir(mode=0o755)
            os.chown(folder, owner, 54322)
        Path(name).chmod(0o755)
        with as_owner_of(Path(name, "ours/file")):
            assert os.geteuid() == 0
        with as_owner_of(theirs / "none/file"):
            (theirs / "file").touch()
            assert (os.geteuid(), os.getegid(), os.getgroups()) == (54321, 54322, [54322])
        assert (theirs / "file").stat().st_uid == 54321
        with pytest.raises(PermissionError), as_owner_of(theirs / "inner/file"):
            (theirs / "inner/file").touch()
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before
