"""The secret key of the device's noise, sealed in the database, and its rotation.

Anyone with this key can remove the noise from everything that was released under it. So the owner
must be able to destroy the key without losing the ledger. The key is random and not derived from
the sealing key, so a rotation re-encrypts nothing.

Under another key, every text gets new noise and is charged again, because the ledger's digests
depend on the key. A rotation also deletes the notes on conversations, which say what surrogates
stand for.
"""

from __future__ import annotations

from sottovoce.core.privacy.noise import Key
from sottovoce.edge.state.database import Store, noise_place

__all__ = ["NoiseKeys"]


class NoiseKeys:
    """Reads the key for each use, because another process may have rotated it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def epoch(self) -> int:
        """The number of keys so far, including the one in use."""
        ((epoch,),) = self._store.rows("SELECT epoch FROM noise_key")
        return int(epoch)

    def current(self) -> Key:
        """Return the key in use.

        Raises:
            DataLoss: the key was altered.
        """
        ((epoch, sealed),) = self._store.rows("SELECT epoch, sealed FROM noise_key")
        return Key(self._store.seal.unseal(sealed, noise_place(epoch)))

    def rotate(self) -> int:
        """Overwrite the key with a new one, irreversibly; return the new epoch.

        Raises:
            Unavailable: the new key is in use, but the old one could not be overwritten everywhere
                yet. For other errors see `Store.transaction`.
        """
        with self._store.transaction() as transaction:
            (epoch,) = transaction.execute("SELECT epoch + 1 FROM noise_key").fetchone()
            sealed = self._store.seal.new_secret(noise_place(epoch))
            transaction.execute("UPDATE noise_key SET epoch = ?, sealed = ?", (epoch, sealed))
            for table in ("charged", "conversations", "answers"):
                transaction.execute(f"DELETE FROM {table}")
        self._store.overwrite()
        return int(epoch)
