"""The secret key of the device's noise, sealed in the database, and its change by the owner.

Why it is here: whoever has this key can take the noise out of all that was released under it, so
the owner must be able to destroy it without losing the ledger. It is a random number of its own,
not derived from the sealing key: to change it, nothing is sealed anew. Under another key every text
is drawn once more, and charged once more: the ledger knows charges by digests under this key. What
was noted of conversations, which says what surrogates stand for, is destroyed with it.
"""

from __future__ import annotations

from sottovoce.core.privacy.keyed import Key
from sottovoce.edge.state.database import Store, noise_place

__all__ = ["Keyring"]


class Keyring:
    """Reads the key whenever it is asked: another process may have changed it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def epoch(self) -> int:
        """How many keys there were, the one in use included."""
        ((epoch,),) = self._store.rows("SELECT epoch FROM noise_key")
        return int(epoch)

    def current(self) -> Key:
        """The key in use.

        Raises:
            DataLoss: it was altered.
        """
        ((epoch, sealed),) = self._store.rows("SELECT epoch, sealed FROM noise_key")
        return Key(self._store.seal.unseal(sealed, noise_place(epoch)))

    def rotate(self) -> int:
        """A new key overwrites the old one, for good; gives the new epoch.

        Raises:
            Unavailable: the new key is in use, but the old one could not be overwritten everywhere
                yet. For the rest see `Store.transaction`.
        """
        with self._store.transaction() as transaction:
            (epoch,) = transaction.execute("SELECT epoch + 1 FROM noise_key").fetchone()
            sealed = self._store.seal.new_secret(noise_place(epoch))
            transaction.execute("UPDATE noise_key SET epoch = ?, sealed = ?", (epoch, sealed))
            for table in ("charged", "conversations", "answers"):
                transaction.execute(f"DELETE FROM {table}")
        self._store.overwrite()
        return int(epoch)
