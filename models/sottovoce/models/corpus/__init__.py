"""Public text: where it comes from, how it is counted."""
