"""Builds bundles, and trains the small models in them."""
