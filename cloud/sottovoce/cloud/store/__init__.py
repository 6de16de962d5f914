"""Database, objects and keys, and the records in them; imports no torch."""
