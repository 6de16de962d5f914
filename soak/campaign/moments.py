"""Where in the code a process may be killed: by the name of the moment, and how it is asked for.

The product knows nothing of it: a process that was started with `environment` loads
``dying/sitecustomize.py`` first, which wraps what the table names as it is imported. Nothing but
the standard library is imported here, as every such process does.
"""

from __future__ import annotations

import os
import re
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


_TABLE: Final = """\
device   predict       after   edge.state.ledger:Ledger.charge_once         1   charged, not released
device   predict many  before  edge.state.database:sign_ledger              12  in the ledger's row, not in its code
device   embed         before  edge.state.ledger:Accounts.add               1   in the ledger, not in its account
device   chat          after   edge.state.conversations:_packed             1   conversation packed, not sealed
device   chat          after   edge.state.conversations:Conversations.keep  1   conversation noted, end of the answer not sent
device   customize     after   edge.state.outbox:Outbox.insert              1   examples queued, not committed
device   customize     after   edge.client.cloud:Cloud.create_job           1   job made, its id not noted
device   customize     before  edge.client.cloud:Cloud.start_job            1   last example up, job not started
device   customize     after   edge.client.cloud:Cloud.start_job            1   job started, not noted
device   customize     before  edge.state.outbox:Outbox.save                3   new state of a job seen, not noted
device   rm            before  edge.client.cloud:Cloud.delete_job           1   to be deleted, cloud not told
device   rm            after   edge.client.cloud:Cloud.delete_job           1   deleted in the cloud, not here
device   rollback      after   edge.client.cloud:Cloud.reinstate_adapter    1   rolled back in the cloud, not here
device   cancel        before  edge.client.cloud:Cloud.cancel_job           1   cancelled here, cloud not told
command  pull          before  edge.bundle:_complete                        12  between two files of a bundle
command  pull          before  edge.bundle:_put                             1   bundle checked, not in its place
command  pull          before  edge.bundle:_switch                          1   bundle in its place, not in use
command  fetch         before  edge.state.adapters:AdapterFolder.install    1   adapter fetched and checked, not in its place
command  fetch         before  edge.state.adapters:AdapterFolder._note      2   adapter in its place, not on the list
command  fetch         before  core.platform.files:sync_tree                2   file written aside, not synced
command  fetch         after   core.platform.files:sync_tree                2   file synced, not renamed
command  fetch         before  core.platform.files:sync_folder              3   file renamed, its folder not synced
command  first text    after   edge.state.device_key:Seal.make              1   first start: key on the disk, no database
command  first text    before  edge.state.database:_seal_of                 1   first start: database, and the key without its name
command  rotate        after   edge.state.device_key:Seal.new_secret        1   new key drawn, not in its row
command  rotate        before  edge.state.database:Store.overwrite          1   new key in use, the old one not overwritten
command  learn         before  edge.state.adapters:AdapterFolder.install    1   learnt, record written, head not in its place
command  learn         after   edge.state.adapters:AdapterFolder.install    1   learnt, head in its place, not tidied
worker   train         after   core.platform.files:sync_tree                3   checkpoint written aside, not renamed
command  learn         after   core.platform.files:sync_tree                2   head, then its list, written aside and not renamed
command  enroll        after   core.platform.files:sync_tree                2   token, then configuration, written aside and not renamed
command  enroll        before  edge.client.cloud:Cloud.redeem_code          1   token on the disk, code not used
command  enroll        after   edge.client.cloud:Cloud.redeem_code          1   code used, token not in its place
cloud    enroll        after   cloud.tenants.credentials:add                1   code used, not committed
cloud    enroll        after   cloud.tenants.credentials:Codes.redeem       1   code used, not answered
cloud    customize     before  cloud.jobs.uploads:_insert                   24  in the midst of a message of examples
cloud    customize     after   cloud.jobs.uploads:append                    1   examples committed, not answered
cloud    customize     after   cloud.jobs:Jobs.create                       1   job committed, not answered
cloud    customize     after   cloud.jobs:Jobs.start                        1   job queued, not answered
cloud    rm            before  cloud.jobs.ending:discard                    1   row of a job gone, its objects not
cloud    rm            before  cloud.jobs:Jobs.purge                        1   objects of a job gone, its rows not purged
worker   train         after   cloud.training.run:Checkpoint.save           2   checkpoint's file written, not among the objects
worker   train         before  cloud.jobs.queue:Queue.keep                  2   checkpoint among the objects, not in its row
worker   train         after   cloud.jobs.queue:Queue.keep                  2   checkpoint in its row, the one before not removed
worker   train         before  cloud.jobs.queue:Queue.finish                1   adapter among the objects, not in its row
worker   train         after   cloud.store.adapters:install                 1   adapter in its row, not committed
worker   train         before  cloud.jobs.ending:_leave_adapter             1   job ended, checkpoints not removed
"""  # noqa: E501
"""Process, errand, when, place without "sottovoce.", calls, and name of each moment."""


def _read(line: str) -> Moment:
    process, errand, when, place, calls, name = re.split(r" {2,}", line)
    return Moment(name, process, f"sottovoce.{place}", when, errand, int(calls))


MOMENTS: Final = tuple(map(_read, _TABLE.splitlines()))


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
