"""Home Assistant with this integration, and the agent that `make clients` runs."""

import os
from collections.abc import Iterator

import custom_components.sottovoce  # noqa: F401 - before the plugin's own custom_components
import pytest
import pytest_socket
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component


@pytest.fixture(autouse=True)
def _ours(enable_custom_integrations: None) -> None:
    """Home Assistant loads `custom_components`."""


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    """The plugin forbids sockets; the agent listens on this machine."""
    pytest_socket.enable_socket()
    pytest_socket.socket_allow_hosts(["127.0.0.1"])
    yield
    pytest_socket.disable_socket(allow_unix_socket=True)


@pytest.fixture
async def house(hass: HomeAssistant) -> HomeAssistant:
    """Home Assistant with what a conversation needs."""
    assert await async_setup_component(hass, "homeassistant", {})
    assert await async_setup_component(hass, "conversation", {})
    return hass


@pytest.fixture
def connection() -> dict[str, str]:
    """Address and key of a real agent, over a server that repeats what it is told."""
    if "OPENAI_ADDRESS" not in os.environ:
        pytest.skip("no agent: `make clients` starts one")
    return {"url": os.environ["OPENAI_ADDRESS"], "api_key": os.environ["KEY"]}
