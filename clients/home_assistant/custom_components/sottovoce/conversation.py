"""The conversation agent: answers through the Sottovoce agent, as the answer arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from homeassistant.components import conversation
from homeassistant.const import MATCH_ALL
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import intent
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from . import SottovoceEntry
from .endpoint import Endpoint, EndpointError

TURNS = 20
"""The last messages of a conversation that each request repeats."""


async def async_setup_entry(
    hass: HomeAssistant, entry: SottovoceEntry, add: AddConfigEntryEntitiesCallback
) -> None:
    """Add the conversation agent."""
    add([SottovoceConversationEntity(entry)])


class SottovoceConversationEntity(conversation.ConversationEntity):
    """Converses; it does not control the house."""

    _attr_has_entity_name = True
    _attr_name = "Sottovoce"
    _attr_supports_streaming = True

    def __init__(self, entry: SottovoceEntry) -> None:
        self._endpoint: Endpoint = entry.runtime_data
        self._attr_unique_id = entry.entry_id

    @property
    def supported_languages(self) -> list[str] | Literal["*"]:
        """All, as far as the upstream model knows them."""
        return MATCH_ALL

    async def _async_handle_message(
        self, user_input: conversation.ConversationInput, chat_log: conversation.ChatLog
    ) -> conversation.ConversationResult:
        """Answer the last message of the log, and add the answer to the log."""
        messages = [
            {"role": each.role, "content": each.content}
            for each in chat_log.content
            if each.role in ("user", "assistant") and each.content
        ][-TURNS:]
        pieces = self._endpoint.answer(chat_log.conversation_id, messages)
        try:
            async for _ in chat_log.async_add_delta_content_stream(self.entity_id, _deltas(pieces)):
                pass
        except EndpointError as error:
            raise HomeAssistantError(str(error)) from error
        last = chat_log.content[-1]
        speech = last.content if last.role == "assistant" else None
        response = intent.IntentResponse(language=user_input.language)
        response.async_set_speech(speech or "")
        return conversation.ConversationResult(
            response=response,
            conversation_id=chat_log.conversation_id,
            continue_conversation=chat_log.continue_conversation,
        )


async def _deltas(
    pieces: AsyncIterator[str],
) -> AsyncIterator[conversation.AssistantContentDeltaDict]:
    """Announce one message of the assistant, then its pieces."""
    yield {"role": "assistant"}
    async for piece in pieces:
        yield {"content": piece}
