"""Files, memory, signals, the console."""
