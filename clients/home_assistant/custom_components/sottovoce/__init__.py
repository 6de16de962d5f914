"""Use a Sottovoce agent as a conversation agent of Home Assistant."""

from __future__ import annotations

from homeassistant.config_entries import ConfigEntry
from homeassistant.const import CONF_API_KEY, CONF_URL, Platform
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import ConfigEntryError, ConfigEntryNotReady
from homeassistant.helpers.aiohttp_client import async_get_clientsession

from .endpoint import Endpoint, EndpointError, KeyRefused

PLATFORMS = (Platform.CONVERSATION,)
SottovoceEntry = ConfigEntry[Endpoint]


async def async_setup_entry(hass: HomeAssistant, entry: SottovoceEntry) -> bool:
    """Connect to the agent. Home Assistant retries if the agent is not up."""
    session = async_get_clientsession(hass)
    endpoint = Endpoint(session, entry.data[CONF_URL], entry.data[CONF_API_KEY])
    try:
        await endpoint.models()
    except KeyRefused as refused:
        raise ConfigEntryError(str(refused)) from refused
    except EndpointError as error:
        raise ConfigEntryNotReady(str(error)) from error
    entry.runtime_data = endpoint
    await hass.config_entries.async_forward_entry_setups(entry, PLATFORMS)
    return True


async def async_unload_entry(hass: HomeAssistant, entry: SottovoceEntry) -> bool:
    """Remove the conversation agent."""
    return await hass.config_entries.async_unload_platforms(entry, PLATFORMS)
