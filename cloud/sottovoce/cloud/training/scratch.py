"""The folder a lease's holder works in, and how what it makes there comes to count.

Why it is here: whoever has a job next may be on another machine. So checkpoints are put among the
objects, and the row of the job names the newest; the folder itself is of use to nobody else.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sottovoce.cloud.disk import full_disk_is_unavailable
from sottovoce.cloud.jobs.disposal import adapter_name, checkpoint_name, scratch_home
from sottovoce.cloud.jobs.queue import Lease, LeaseLost, Queue
from sottovoce.cloud.state.adapters import AdapterFiles, digest, stored
from sottovoce.cloud.state.objects import copy_files, one_by_one
from sottovoce.core.errors import DataLoss

__all__ = ["Scratch", "scratch"]

_log = logging.getLogger(__name__)


class Scratch:
    """A holder's folder.

    Attributes:
        adapter: what training is to make.
        checkpoint: the file it goes on from, and writes; what lies beside it is kept with it.
    """

    def __init__(self, folder: Path, queue: Queue, lease: Lease) -> None:
        self.adapter = folder / "adapter"
        self.checkpoint = folder / "checkpoints" / "last.safetensors"
        self._queue, self._lease = queue, lease
        self._objects = queue.database.objects

    def fetch(self) -> None:
        """Brings what the job has reached, under whatever holder.

        Raises:
            LeaseLost: see `Queue`. Unavailable: it cannot be fetched now, or the disk is full.
        """
        reached = self._queue.checkpoint(self._lease)
        if not reached:
            return
        try:
            with self._objects.at(reached) as files, full_disk_is_unavailable():
                if files.is_dir():  # else it is lost, and the job begins anew
                    copy_files(files, self.checkpoint.parent)
        except DataLoss as error:  # as then
            _log.error("job %s begins anew: %s", self._lease.job, error)

    def keep(self) -> None:
        """Has the job go on from the checkpoint as it is now.

        Raises:
            LeaseLost, Unavailable: see `fetch`.
        """
        # A name that this holder, too, has never given: what it goes on from has the last one.
        name = checkpoint_name(self._lease.job, self._lease.token, secrets.token_hex(8))
        self._objects.put(self.checkpoint.parent, name)
        try:
            before = self._queue.keep(self._lease, name)
        except LeaseLost:
            self._objects.remove(name)
            raise
        if before:  # which goes with the job's end, else
            remove = partial(self._objects.remove, before)
            one_by_one(self._objects, [(self._lease.job, remove)])

    def put_adapter(self) -> AdapterFiles:
        """Puts what was trained where it is found once it has its name.

        Raises:
            LeaseLost, Unavailable: see `fetch`.
        """
        self._queue.renew(self._lease)  # the job may have ended, and been deleted, long since
        name = adapter_name(self._lease.job, self._lease.token)
        self._objects.put(self.adapter, name)
        return stored(self._objects, name, digest(self.adapter))


@contextmanager
def scratch(state: Path, queue: Queue, lease: Lease) -> Iterator[Scratch]:
    """A folder for as long as the block.

    Args:
        state: of this machine.

    Raises:
        Unavailable: the disk is full.
    """
    folder = scratch_home(state) / f"{lease.job}.{lease.token}"
    try:
        with full_disk_is_unavailable():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield Scratch(folder, queue, lease)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
