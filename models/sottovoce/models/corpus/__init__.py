"""Public text: its sources, and its word counts."""
