"""Ask for the agent's address and key."""

from __future__ import annotations

from typing import Any

import voluptuous as vol
from homeassistant.config_entries import SOURCE_RECONFIGURE, ConfigFlow, ConfigFlowResult
from homeassistant.const import CONF_API_KEY, CONF_URL
from homeassistant.helpers.aiohttp_client import async_get_clientsession
from homeassistant.helpers.selector import TextSelector, TextSelectorConfig, TextSelectorType
from yarl import URL

from .const import DOMAIN
from .endpoint import Endpoint, EndpointError, KeyRefused

SCHEMA = vol.Schema(
    {
        vol.Required(CONF_URL): TextSelector(TextSelectorConfig(type=TextSelectorType.URL)),
        vol.Required(CONF_API_KEY): TextSelector(
            TextSelectorConfig(type=TextSelectorType.PASSWORD)
        ),
    }
)


class SottovoceConfigFlow(ConfigFlow, domain=DOMAIN):
    """Set up or change the connection to an agent."""

    VERSION = 1

    async def async_step_user(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """Try the address and the key, then keep them."""
        return await self._step("user", user_input)

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change the address or the key."""
        return await self._step("reconfigure", user_input)

    async def _step(self, step: str, given: dict[str, Any] | None) -> ConfigFlowResult:
        errors: dict[str, str] = {}
        changes = self.source == SOURCE_RECONFIGURE
        shown = given or {}
        if changes and not given:  # the key is not shown again
            shown = {CONF_URL: self._get_reconfigure_entry().data[CONF_URL]}
        if given is not None:
            given = {
                CONF_URL: given[CONF_URL].strip().rstrip("/"),
                CONF_API_KEY: given[CONF_API_KEY].strip(),
            }
            if not changes:
                self._async_abort_entries_match({CONF_URL: given[CONF_URL]})
            if (problem := await self._problem(given)) is not None:
                errors["base"] = problem
            elif changes:
                return self.async_update_reload_and_abort(self._get_reconfigure_entry(), data=given)
            else:
                return self.async_create_entry(title="Sottovoce", data=given)
        schema = self.add_suggested_values_to_schema(SCHEMA, shown)
        return self.async_show_form(step_id=step, data_schema=schema, errors=errors)

    async def _problem(self, given: dict[str, Any]) -> str | None:
        """Return the translation key of what is wrong, or None."""
        try:
            url = URL(given[CONF_URL])
        except ValueError:
            return "invalid_url"
        if url.scheme not in ("http", "https") or not url.host or not url.path.endswith("/v1"):
            return "invalid_url"
        session = async_get_clientsession(self.hass)
        try:
            await Endpoint(session, given[CONF_URL], given[CONF_API_KEY]).models()
        except KeyRefused:
            return "invalid_auth"
        except EndpointError:
            return "cannot_connect"
        return None
