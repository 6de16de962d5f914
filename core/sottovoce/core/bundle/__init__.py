"""The bundle: what the builder writes and devices read."""
