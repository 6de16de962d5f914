"""What the device remembers: the sealed database, the ledger, the outbox."""
