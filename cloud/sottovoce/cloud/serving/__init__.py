"""Answer every tenant from one copy of the backbone."""
