"""Move the key of the state from one place to another without a moment of loss.

The key is copied first, and then the setting is changed. A key is removed from its old place only
after the copy in the new place has opened the database. After an interruption the key is in both
places, and the same command continues.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sottovoce.core.errors import ConfigError, SottovoceError
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import PLACES, key_in
from sottovoce.edge.state.only_one import only_one

__all__ = ["copy_key", "leave_others"]


def copy_key(state: Path, here: str, there: str) -> None:
    """Copy the key, so that it is in both places.

    Args:
        state: of no running agent.
        here: the key's present place, one of `PLACES`.
        there: the other place.

    Raises:
        NotReady: an agent runs, or a place cannot be asked.
        ConfigError: another key is in the other place.
        DataLoss: the key in the present place is not the key of the state.
    """
    with only_one(state):
        Store.open(state, key_in(here)).close()
        key_in(there).put(state, key_in(here).secret(state))


def leave_others(state: Path, there: str) -> dict[str, str]:
    """Remove the key from all other places, once it has opened the state from there.

    Returns:
        Other places that held the key, each with the steps left to another person; the text is
            empty where the key was removed.

    Raises:
        ConfigError: the key cannot be removed from another place. See `Store.open`; then nothing is
            removed.
    """
    lay = {}
    with only_one(state):
        Store.open(state, key_in(there)).close()
        secret = key_in(there).secret(state)
        for name in PLACES:
            other = key_in(name)
            held = None
            with suppress(SottovoceError):  # no key there, or no such place
                held = other.secret(state) if name != there else None
            if held == secret:
                try:
                    lay[name] = other.remove(state)
                except SottovoceError as error:
                    raise ConfigError(
                        f"the key lies here now: {there}; and still here: {other.told(state)}, "
                        f"where it could not be removed ({error.problem})",
                        fix=f"mend that, then run `sotto move-key {there}` again",
                        subject="agent.key_place",
                    ) from error
    return lay
