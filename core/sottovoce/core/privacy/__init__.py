"""Noise, mechanisms, search, release: what makes text private."""
