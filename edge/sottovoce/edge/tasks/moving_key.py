"""Takes the key of the state from one place to another, so that it is never in none.

Why it is here: it is copied, the setting is changed, and only what the database was opened with
from its new place is removed from the old one. Whoever is cut off in between has it in both, and
the same command goes on.
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
    """Has the key lie in both places.

    Args:
        state: of no running agent.
        here: the place it is in, of `PLACES`.
        there: another.

    Raises:
        NotReady: an agent runs, or a place cannot be asked. ConfigError: another key is there.
        DataLoss: what is here is not the key of the state.
    """
    with only_one(state):
        Store.open(state, key_in(here)).close()
        key_in(there).put(state, key_in(here).secret(state))


def leave_others(state: Path, there: str) -> dict[str, str]:
    """Removes the key from everywhere but where it is to be, once it has opened the state there.

    Returns:
        Where else it lay, and what somebody else has to do there; nothing where it was removed.

    Raises:
        ConfigError: it cannot be removed from another place. See `Store.open`; nothing is removed
            then.
    """
    lay = {}
    with only_one(state):
        Store.open(state, key_in(there)).close()
        secret = key_in(there).secret(state)
        for name in PLACES:
            other = key_in(name)
            held = None
            with suppress(SottovoceError):  # there is none, or no such place
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
