"""The wire's three services; each turns messages into calls and back, no more."""
