"""Cancel customisations, roll adapters back and delete them.

A change takes effect on this device at once, even where the cloud does not answer. A cancelled
customisation sends nothing more. An error reports each change that did not reach the cloud.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sottovoce.core.errors import NotFound, NotReady, SottovoceError
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.state.adapters import AdapterFolder
from sottovoce.edge.state.outbox import ENDED, Outbox, is_usable
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["Adapters"]

_SUCCEEDED = agent.CUSTOMIZATION_STATE_SUCCEEDED


class Adapters:
    """Changes customisations and adapters, on this device and in the cloud.

    Args:
        cloud: runs the training jobs.
        outbox: holds the records.
        fetched: folder of the adapters that were fetched.
    """

    def __init__(self, cloud: Cloud, outbox: Outbox, fetched: Path) -> None:
        self._cloud = cloud
        self._outbox = outbox
        self._fetched = fetched

    def cancel(self, request: adapters.CancelCustomizationRequest) -> agent.Customization:
        """Cancel a customisation, on this device first.

        For a customisation that was cancelled before, the cloud is asked again.

        Raises:
            NotFound: there is no such customisation.
            NotReady: it has already ended in another way.
            Unavailable: it is cancelled here, and the cloud did not hear of it.
        """
        record = (
            self._outbox.get(request.id) if request.id else self._outbox.newest(request.adapter)
        )
        cancelled = agent.CUSTOMIZATION_STATE_CANCELLED
        if record.state in ENDED and record.state != cancelled:
            raise NotReady(
                f"the customisation of {record.adapter!r} has ended",
                fix=f"`sotto rm {record.adapter}` deletes what it trained",
                subject=record.adapter,
            )
        record.state, record.message = cancelled, ""
        self._outbox.save(record)
        if record.job_id:
            self._told(record, lambda: self._cloud.cancel_job(record.job_id))
        return self._outbox.get(record.id)

    def roll_back(self, request: adapters.RollBackAdapterRequest) -> agent.Customization:
        """Point a name to an earlier version, or to a later one that was rolled back.

        Raises:
            NotFound: the adapter or version exists neither here nor in the cloud.
            NotReady: there is no version before the present one.
            Unavailable: the cloud does not answer; the name keeps its version.
        """
        versions = [one for one in self._named(request.adapter) if one.state == _SUCCEEDED]
        wanted = _version(versions, request)
        if not wanted.job_id:
            raise _not_ours(wanted)
        self._cloud.reinstate_adapter(wanted.job_id)
        newer = True
        for one in versions:
            newer = newer and one.id != wanted.id
            if one.set_aside != newer:
                self._outbox.set_aside(one.id, aside=newer)
        return self._outbox.get(wanted.id)

    def delete(self, request: adapters.DeleteAdapterRequest) -> int:
        """Delete all versions of an adapter, the cloud's first, and return their number.

        Raises:
            NotFound: this device has no such adapter.
            Unavailable: the cloud could not be reached for a version, and the deletion was not
                forced. That version and those after it are kept.
        """
        records = self._named(request.adapter)
        for record in records:
            if record.state not in ENDED:
                record.state = agent.CUSTOMIZATION_STATE_CANCELLED
                self._outbox.save(record)
            if record.job_id:
                self._forgotten(record, force=request.force)
            # Before the record, because only the record leads to the folder.
            AdapterFolder(self._fetched, record.adapter_id).remove()
            self._outbox.forget(record.id)
        return len(records)

    def _named(self, adapter: str) -> list[agent.Customization]:
        self._outbox.newest(adapter)  # raises if there is none
        return [one for one in self._outbox.all() if one.adapter == adapter]

    def _forgotten(self, record: agent.Customization, *, force: bool) -> None:
        try:
            self._told(record, lambda: self._cloud.delete_job(record.job_id))
        except NotFound:
            return  # deleted by the cloud before
        except SottovoceError:
            if not force:
                raise

    def _told(self, record: agent.Customization, tell: Callable[[], object]) -> None:
        names = self._outbox.pseudonyms(record)
        try:
            tell()
        except SottovoceError as error:
            raise names.revealed(error) from error


def _not_ours(wanted: agent.Customization) -> NotReady:
    name = wanted.adapter
    fix = f"`sotto fetch {name} --roll-back` goes back on this device"
    if wanted.local:
        fix += f" from one that was learnt here; `sotto learn {name} --replace` learns anew"
    return NotReady(
        f"the cloud did not train that version of {name!r} for this device", fix=fix, subject=name
    )


def _version(
    versions: list[agent.Customization], request: adapters.RollBackAdapterRequest
) -> agent.Customization:
    if request.id:
        found = [one for one in versions if one.id.startswith(request.id)]
        if len(found) == 1:
            return found[0]
        raise NotFound(
            f"{len(found)} versions of {request.adapter!r} begin with that id",
            fix=f"see `sotto show {request.adapter}`",
            subject=request.adapter,
        )
    usable = [one for one in versions if is_usable(one)]
    if len(usable) > 1:
        return usable[1]
    raise NotReady(
        f"there is no version of {request.adapter!r} before the present one",
        fix=f"see `sotto show {request.adapter}`; a later one is named by its id",
        subject=request.adapter,
    )
