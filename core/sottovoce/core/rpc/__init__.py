"""Code shared by both ends of a call: status and errors, ordered streams, addresses, settings."""
