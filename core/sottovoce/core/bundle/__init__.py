"""The bundle, which the builder writes and devices read."""
