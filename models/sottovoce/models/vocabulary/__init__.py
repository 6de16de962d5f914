"""Words that a device knows, their readings and their classes."""
