"""The owner's lists of words that pass and words that never do, sealed in the agent's database.

A service cannot write its configuration, and the words may be private. So the lists that change
while the agent runs are part of its state. The configuration's own lists count as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from sottovoce.core.errors import InvalidInput
from sottovoce.edge.state.database import Store

if TYPE_CHECKING:
    from sottovoce.core.privacy.hiding import Hiding

_PLACE: Final = b"words"


class Lists(NamedTuple):
    """Words and phrases that pass, and those that never do."""

    allow: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()


class Words:
    """The lists, and the choices that follow from them. Safe to share between threads.

    Args:
        choices: returns the owner's choices with these words more, see `HideConfig.hiding`.
    """

    def __init__(
        self, store: Store, choices: Callable[[Iterable[str], Iterable[str]], Hiding]
    ) -> None:
        self._store, self._choices = store, choices
        self._read: tuple[bytes, Hiding] | None = None

    def lists(self) -> Lists:
        """Return both lists."""
        return self._opened(self._sealed())

    def hiding(self) -> Hiding:
        """Return the owner's present choices."""
        sealed, read = self._sealed(), self._read
        if read is None or read[0] != sealed:
            read = self._read = sealed, self._choices(*self._opened(sealed))
        return read[1]

    def change(
        self,
        *,
        allow: Iterable[str] = (),
        hide: Iterable[str] = (),
        without: Iterable[str] = (),
    ) -> Lists:
        """Have words pass under `personal` or never pass, or take them out of both lists.

        A word is in one list at most.

        Raises:
            InvalidInput: a word cannot be taken or is in neither list, or there are too many.
        """
        allow, hide, without = tuple(allow), tuple(hide), tuple(without)
        with self._store.transaction() as transaction:
            had = self.lists()
            known = {word.casefold() for each in had for word in each}
            if missing := [word for word in without if word.casefold() not in known]:
                raise InvalidInput(
                    f"{missing[0]!r} is in neither list",
                    fix="`sotto words list` shows both, and the lists of the configuration",
                    subject="words",
                )
            changed = Lists(
                _with(had.allow, allow, {*hide, *without}),
                _with(had.hide, hide, {*allow, *without}),
            )
            self._choices(*changed)  # refuses what cannot be taken
            sealed = self._store.seal.seal(json.dumps(changed).encode(), _PLACE)
            transaction.execute("INSERT OR REPLACE INTO words VALUES (1, ?)", (sealed,))
        return changed

    def _sealed(self) -> bytes:
        rows = self._store.rows("SELECT sealed FROM words")
        return rows[0][0] if rows else b""

    def _opened(self, sealed: bytes) -> Lists:
        if not sealed:
            return Lists()
        return Lists(*map(tuple, json.loads(self._store.seal.unseal(sealed, _PLACE))))


def _with(listed: tuple[str, ...], words: tuple[str, ...], without: set[str]) -> tuple[str, ...]:
    """Return the list with new words and without others, each once in any case."""
    gone = {word.casefold() for word in without}
    all_of_them = {word.casefold(): word for word in (*words[::-1], *listed[::-1])}
    return tuple(word for key, word in all_of_them.items() if key not in gone)[::-1]
