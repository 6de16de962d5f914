"""Database, objects, keys, and what is kept in them; imports no torch."""
