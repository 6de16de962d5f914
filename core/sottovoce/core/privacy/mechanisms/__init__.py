"""Mechanisms on words: one module each, and the registry that knows them by name."""
