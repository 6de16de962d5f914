"""Status and errors, ordered streams, addresses, settings: what both ends of a call agree on."""
