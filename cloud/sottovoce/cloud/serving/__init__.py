"""One copy of the backbone that answers every tenant."""
