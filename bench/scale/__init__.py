"""Load and failure measurements of a cloud on many machines."""
