"""The integration inside Home Assistant, against a real agent over an echoing server."""

from homeassistant.components import conversation
from homeassistant.config_entries import SOURCE_USER, ConfigEntryState
from homeassistant.core import Context, HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers.chat_session import async_get_chat_session
from pytest_homeassistant_custom_component.common import MockConfigEntry

DOMAIN = "sottovoce"
AGENT = "conversation.sottovoce"
SAID = "Anna sees Dr Okafor in the garden"
NOBODY = "http://127.0.0.1:9/v1"


async def set_up(house: HomeAssistant, connection: dict[str, str]) -> MockConfigEntry:
    """Add an entry as the config flow does."""
    entry = MockConfigEntry(domain=DOMAIN, title="Sottovoce", data=connection)
    entry.add_to_hass(house)
    await house.config_entries.async_setup(entry.entry_id)
    await house.async_block_till_done()
    return entry


async def told(house: HomeAssistant, text: str, name: str | None = None) -> tuple[str, str]:
    """Say something to the agent; its speech and the conversation's id."""
    result = await conversation.async_converse(house, text, name, Context(), agent_id=AGENT)
    return result.response.speech["plain"]["speech"], result.conversation_id


async def test_the_flow_asks_until_address_and_key_are_right(
    house: HomeAssistant, connection: dict[str, str]
) -> None:
    flows = house.config_entries.flow
    flow = await flows.async_init(DOMAIN, context={"source": SOURCE_USER})
    assert (flow["type"], flow["errors"]) == (FlowResultType.FORM, {})
    wrong = {
        "invalid_url": {**connection, "url": "127.0.0.1:8472"},
        "cannot_connect": {**connection, "url": NOBODY},
        "invalid_auth": {**connection, "api_key": "another"},
    }
    for error, given in wrong.items():
        flow = await flows.async_configure(flow["flow_id"], given)
        assert flow["errors"] == {"base": error}
    typed = {"url": f"{connection['url']}/ ", "api_key": f"{connection['api_key']}\n"}
    flow = await flows.async_configure(flow["flow_id"], typed)
    assert (flow["type"], flow["data"]) == (FlowResultType.CREATE_ENTRY, connection)
    again = await flows.async_init(DOMAIN, context={"source": SOURCE_USER}, data=connection)
    assert (again["type"], again["reason"]) == (FlowResultType.ABORT, "already_configured")


async def test_a_conversation_comes_back_restored_and_goes_on(
    house: HomeAssistant, connection: dict[str, str]
) -> None:
    entry = await set_up(house, connection)
    assert entry.state is ConfigEntryState.LOADED
    speech, name = await told(house, SAID)
    assert speech == SAID
    assert await told(house, f"And {SAID}", name) == (f"And {SAID}", name)
    assert await house.config_entries.async_unload(entry.entry_id)


async def test_an_answer_streams(house: HomeAssistant, connection: dict[str, str]) -> None:
    await set_up(house, connection)
    pieces: list[str] = []
    with (
        async_get_chat_session(house) as session,
        conversation.async_get_chat_log(
            house,
            session,
            chat_log_delta_listener=lambda _, delta: pieces.append(delta.get("content") or ""),
        ),
    ):
        speech, _ = await told(house, SAID, session.conversation_id)
    assert "".join(pieces) == speech == SAID
    assert sum(map(bool, pieces)) > 1


async def test_an_agent_that_is_away_or_refuses_is_reported(
    house: HomeAssistant, connection: dict[str, str]
) -> None:
    away = await set_up(house, {**connection, "url": NOBODY})
    assert away.state is ConfigEntryState.SETUP_RETRY
    assert "running" in away.reason
    refused = await set_up(house, {**connection, "api_key": "another"})
    assert refused.state is ConfigEntryState.SETUP_ERROR
    assert "key" in refused.reason


async def test_the_key_can_be_changed(house: HomeAssistant, connection: dict[str, str]) -> None:
    entry = await set_up(house, {**connection, "api_key": "another"})
    flow = await entry.start_reconfigure_flow(house)
    assert "another" not in str(flow["data_schema"].schema)
    flow = await house.config_entries.flow.async_configure(flow["flow_id"], connection)
    await house.async_block_till_done()
    assert flow["reason"] == "reconfigure_successful"
    assert entry.state is ConfigEntryState.LOADED
    speech, _ = await told(house, SAID)
    assert speech == SAID
