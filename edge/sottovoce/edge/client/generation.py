"""The interface of text generators: the cloud's models, or an OpenAI-like server.

Both get the same message, in which every text is released. Both answer in the same pieces. So the
rest of the device cannot tell them apart.

`CloudWriter` is our cloud as a writer. It offers its adapters under their names on this device.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Protocol

from sottovoce.core.errors import SottovoceError
from sottovoce.core.rpc.streams import pad
from sottovoce.edge.client.cloud import Cloud, Stoppable
from sottovoce.edge.state.outbox import Outbox
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import generation_pb2 as generation
from sottovoce.v1 import training_pb2 as training

__all__ = ["LARGEST_ANSWER", "CloudWriter", "Stoppable", "Writer", "check_size"]

LARGEST_ANSWER: Final = 1 << 20
"""Largest answer in characters, including function calls.

A model that is asked for 8,192 tokens writes fewer.
"""


def check_size(characters: int) -> None:
    """Refuse an answer of more than `LARGEST_ANSWER` characters, while it arrives.

    Raises:
        SottovoceError: the answer has more.
    """
    if characters > LARGEST_ANSWER:
        raise SottovoceError(
            f"the answer has more than {LARGEST_ANSWER} characters", fix="ask for fewer tokens"
        )


class Writer(Protocol):
    """Answers released prompts."""

    @property
    def peer(self) -> str:
        """The server's name; a text sent to one peer was not sent to another."""

    @property
    def takes_options(self) -> bool:
        """Whether it takes functions, forms of answers and all sampling settings."""

    def models(self) -> list[str]:
        """Return the names by which models can be requested."""

    def has(self, model: str) -> bool:
        """Return whether ``model`` is known here.

        An unknown name is then never sent, so the server learns nothing from it.
        """

    def check(self, model: str) -> str:
        """Refuse a model that cannot be requested, without any call.

        Args:
            model: the app's name for it.

        Returns:
            The customisation on this device that trained the model; empty if none did.
        """

    def write(
        self, model: str, request: generation.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation.GenerateResponse, None, None]:
        """Yield the answer in pieces; the last piece says how it ended.

        Args:
            model: the app's name for it.
            request: without an adapter.
            stoppable: receives a function that ends the answer from another thread.
        """


class CloudWriter:
    """Writes with our cloud.

    A model is one of the device's adapters. An empty name means the model without an adapter.
    """

    def __init__(self, cloud: Cloud, outbox: Outbox) -> None:
        self._cloud = cloud
        self._outbox = outbox

    @property
    def peer(self) -> str:
        return self._cloud.address

    @property
    def takes_options(self) -> bool:
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
        self._cloud.check()
        return self._outbox.adapter(model)[1] if model else ""

    def write(
        self, model: str, request: generation.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation.GenerateResponse, None, None]:
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
