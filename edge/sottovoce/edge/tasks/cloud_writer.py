"""Our cloud as a writer: offers its adapters under their names on this device."""

from __future__ import annotations

from collections.abc import Generator

from sottovoce.core.errors import SottovoceError
from sottovoce.core.rpc.streams import pad
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.generation import Stoppable
from sottovoce.edge.state.outbox import Outbox
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import generation_pb2 as generation
from sottovoce.v1 import training_pb2 as training

__all__ = ["CloudWriter"]


class CloudWriter:
    """Writes with our cloud.

    A model is one of the device's adapters. An empty name means the model without an adapter.
    """

    def __init__(self, cloud: Cloud, outbox: Outbox) -> None:
        self._cloud = cloud
        self._outbox = outbox

    @property
    def peer(self) -> str:
        """See `Writer.peer`."""
        return self._cloud.address

    @property
    def takes_options(self) -> bool:
        """See `Writer.takes_options`."""
        return False

    def models(self) -> list[str]:
        """Return the adapters trained to write, newest first; see `Writer.models`."""
        succeeded = agent.CUSTOMIZATION_STATE_SUCCEEDED
        records = (record for record in self._outbox.all() if record.state == succeeded)
        writing = (
            record.adapter
            for record in records
            if self._outbox.job_request(record.id).training.task == training.TASK_GENERATION
        )
        return [*dict.fromkeys(writing)]

    def has(self, model: str) -> bool:
        """See `Writer.has`: none of these names leaves the device."""
        return True

    def check(self, model: str) -> str:
        """See `Writer.check`."""
        self._cloud.check()
        return self._outbox.adapter(model)[1] if model else ""

    def write(
        self, model: str, request: generation.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation.GenerateResponse, None, None]:
        """See `Writer.write`."""
        if not model:
            pad(request)
            yield from self._cloud.generate(request, stoppable)
            return
        names, _ = self._outbox.adapter(model)
        request.adapter = names.adapter_id
        pad(request)
        try:
            yield from self._cloud.generate(request, stoppable)
        except SottovoceError as error:
            raise names.revealed(error) from error
