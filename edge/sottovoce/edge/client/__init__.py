"""The cloud as seen from here."""
