"""Where in the code a process may be killed: by the name of the moment, and how it is asked for.

The product knows nothing of it: a process that was started with `environment` loads
``dying/sitecustomize.py`` first, which wraps what the table names as it is imported. Nothing but
the standard library is imported here, as every such process does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = "CAMPAIGN_DEATH_FILE"
PROCESS: Final = "CAMPAIGN_PROCESS"
"""Variables: where a death is asked for, and which of its processes this one is to the campaign."""

_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in the code, and the errand on which it is come by.

    Attributes:
        name: what has happened by then, and what has not.
        process: that dies: "device" (its daemon), "command" (of the device), "cloud", "worker".
        place: "module:function" or "module:class.method".
        when: "before" or "after" that is called.
        errand: as in `errands.ALL`.
        calls: at one of which, by chance; the first in a table's first round.
    """

    name: str
    process: str
    place: str
    when: str
    errand: str
    calls: int = 1


_EDGE: Final = "sottovoce.edge."
_CLOUD: Final = "sottovoce.cloud."
_CALLS: Final = f"{_EDGE}client.cloud:Cloud."
_HOME: Final = f"{_EDGE}state.adapters:AdapterFolder."
_FILES: Final = "sottovoce.core.platform.files:"

MOMENTS: Final = (
    Moment(
        "charged, not released",
        *("device", f"{_EDGE}state.ledger:Ledger.charge_once", "after", "predict"),
    ),
    Moment(
        "in the ledger's row, not in its code",
        *("device", f"{_EDGE}state.database:sign_ledger", "before", "predict many", 12),
    ),
    Moment(
        "in the ledger, not in its account",
        *("device", f"{_EDGE}state.ledger:Accounts.add", "before", "embed"),
    ),
    Moment(
        "conversation packed, not sealed",
        *("device", f"{_EDGE}state.conversations:_packed", "after", "chat"),
    ),
    Moment(
        "conversation noted, end of the answer not sent",
        *("device", f"{_EDGE}state.conversations:Conversations.keep", "after", "chat"),
    ),
    Moment(
        "examples queued, not committed",
        *("device", f"{_EDGE}state.outbox:Outbox.insert", "after", "customize"),
    ),
    Moment(
        "job made, its id not noted",
        *("device", f"{_CALLS}create_job", "after", "customize"),
    ),
    Moment(
        "last example up, job not started",
        *("device", f"{_CALLS}start_job", "before", "customize"),
    ),
    Moment(
        "job started, not noted",
        *("device", f"{_CALLS}start_job", "after", "customize"),
    ),
    Moment(
        "new state of a job seen, not noted",
        *("device", f"{_EDGE}state.outbox:Outbox.save", "before", "customize", 3),
    ),
    Moment(
        "to be deleted, cloud not told",
        *("device", f"{_CALLS}delete_job", "before", "rm"),
    ),
    Moment(
        "deleted in the cloud, not here",
        *("device", f"{_CALLS}delete_job", "after", "rm"),
    ),
    Moment(
        "rolled back in the cloud, not here",
        *("device", f"{_CALLS}reinstate_adapter", "after", "rollback"),
    ),
    Moment(
        "cancelled here, cloud not told",
        *("device", f"{_CALLS}cancel_job", "before", "cancel"),
    ),
    Moment(
        "between two files of a bundle",
        *("command", f"{_EDGE}bundle:_complete", "before", "pull", 12),
    ),
    Moment(
        "bundle checked, not in its place",
        *("command", f"{_EDGE}bundle:_put", "before", "pull"),
    ),
    Moment(
        "bundle in its place, not in use",
        *("command", f"{_EDGE}bundle:_switch", "before", "pull"),
    ),
    Moment(
        "adapter fetched and checked, not in its place",
        *("command", f"{_HOME}install", "before", "fetch"),
    ),
    Moment(
        "adapter in its place, not on the list",
        *("command", f"{_HOME}_note", "before", "fetch", 2),
    ),
    Moment(
        "file written aside, not synced",
        *("command", f"{_FILES}sync_tree", "before", "fetch", 2),
    ),
    Moment(
        "file synced, not renamed",
        *("command", f"{_FILES}sync_tree", "after", "fetch", 2),
    ),
    Moment(
        "file renamed, its folder not synced",
        *("command", f"{_FILES}sync_folder", "before", "fetch", 3),
    ),
    Moment(
        "first start: key on the disk, no database",
        *("command", f"{_EDGE}state.device_key:Seal.make", "after", "first text"),
    ),
    Moment(
        "first start: database, and the key without its name",
        *("command", f"{_EDGE}state.database:_seal_of", "before", "first text"),
    ),
    Moment(
        "new key drawn, not in its row",
        *("command", f"{_EDGE}state.device_key:Seal.new_secret", "after", "rotate"),
    ),
    Moment(
        "new key in use, the old one not overwritten",
        *("command", f"{_EDGE}state.database:Store.overwrite", "before", "rotate"),
    ),
    Moment(
        "learnt, record written, head not in its place",
        *("command", f"{_HOME}install", "before", "learn"),
    ),
    Moment(
        "learnt, head in its place, not tidied",
        *("command", f"{_HOME}install", "after", "learn"),
    ),
    Moment(
        "checkpoint written aside, not renamed",
        *("worker", f"{_FILES}sync_tree", "after", "train", 3),
    ),
    Moment(
        "head, then its list, written aside and not renamed",
        *("command", f"{_FILES}sync_tree", "after", "learn", 2),
    ),
    Moment(
        "token, then configuration, written aside and not renamed",
        *("command", f"{_FILES}sync_tree", "after", "enroll", 2),
    ),
    Moment(
        "token on the disk, code not used",
        *("command", f"{_CALLS}redeem_code", "before", "enroll"),
    ),
    Moment(
        "code used, token not in its place",
        *("command", f"{_CALLS}redeem_code", "after", "enroll"),
    ),
    Moment(
        "code used, not committed",
        *("cloud", f"{_CLOUD}tenants.credentials:add", "after", "enroll"),
    ),
    Moment(
        "code used, not answered",
        *("cloud", f"{_CLOUD}tenants.credentials:Codes.redeem", "after", "enroll"),
    ),
    Moment(
        "in the midst of a message of examples",
        *("cloud", f"{_CLOUD}jobs.uploads:_insert", "before", "customize", 24),
    ),
    Moment(
        "examples committed, not answered",
        *("cloud", f"{_CLOUD}jobs.uploads:append", "after", "customize"),
    ),
    Moment(
        "job committed, not answered",
        *("cloud", f"{_CLOUD}jobs:Jobs.create", "after", "customize"),
    ),
    Moment(
        "job queued, not answered",
        *("cloud", f"{_CLOUD}jobs:Jobs.start", "after", "customize"),
    ),
    Moment(
        "row of a job gone, its objects not",
        *("cloud", f"{_CLOUD}jobs.ending:discard", "before", "rm"),
    ),
    Moment(
        "objects of a job gone, its rows not purged",
        *("cloud", f"{_CLOUD}jobs:Jobs.purge", "before", "rm"),
    ),
    Moment(
        "checkpoint's file written, not among the objects",
        *("worker", f"{_CLOUD}training.run:Checkpoint.save", "after", "train", 2),
    ),
    Moment(
        "checkpoint among the objects, not in its row",
        *("worker", f"{_CLOUD}jobs.queue:Queue.keep", "before", "train", 2),
    ),
    Moment(
        "checkpoint in its row, the one before not removed",
        *("worker", f"{_CLOUD}jobs.queue:Queue.keep", "after", "train", 2),
    ),
    Moment(
        "adapter among the objects, not in its row",
        *("worker", f"{_CLOUD}jobs.queue:Queue.finish", "before", "train"),
    ),
    Moment(
        "adapter in its row, not committed",
        *("worker", f"{_CLOUD}store.adapters:install", "after", "train"),
    ),
    Moment(
        "job ended, checkpoints not removed",
        *("worker", f"{_CLOUD}jobs.ending:_leave_adapter", "before", "train"),
    ),
)


class Death:
    """Asks one process to kill itself.

    Args:
        file: through which it is asked; in no folder that anything else looks into.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._reached = file.with_suffix(".reached")

    def environment(self, process: str) -> dict[str, str]:
        """What a process is started with that is to be ``process`` for a moment."""
        ours = str(_ROOT / "soak/campaign/dying"), str(_ROOT), os.environ.get("PYTHONPATH")
        path = os.pathsep.join(filter(None, ours))
        return {FILE: str(self._file), PROCESS: process, "PYTHONPATH": path}

    def arm(self, moment: Moment, call: int) -> None:
        """Has the process that comes by die, at the ``call``-th time from now on."""
        self._reached.unlink(missing_ok=True)
        half = self._file.with_suffix(".new")
        half.write_text(f"{os.urandom(4).hex()}\n{moment.name}\n{moment.process}\n{call}")
        half.replace(self._file)

    def disarm(self) -> None:
        """Has nobody die any more."""
        self._file.unlink(missing_ok=True)

    @property
    def reached(self) -> bool:
        """Whether it has come to it."""
        return self._reached.exists()


def happening(file: Path, name: str, process: str, calls: dict[str, int]) -> bool:
    """Whether this is the call at which ``process`` is to die; counts in ``calls``. True for one
    process alone, whatever happens at once."""
    try:
        asked = file.read_text()
        drawn, moment, which, call = asked.split("\n")
    except (FileNotFoundError, ValueError):
        return False
    if (moment, which) != (name, process):
        return False
    calls[drawn] = calls.get(drawn, 0) + 1
    if calls[drawn] != int(call):
        return False
    try:
        file.rename(file.with_suffix(".reached"))
    except FileNotFoundError:
        return False
    return True
