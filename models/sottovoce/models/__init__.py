"""Build bundles, and train the small models in them."""
