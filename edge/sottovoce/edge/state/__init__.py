"""The device's stored state: the sealed database, the ledger, the outbox."""
