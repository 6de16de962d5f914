"""Backbones, methods, adapters: the networks, whoever runs them."""
