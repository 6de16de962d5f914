"""Tenants, their tokens, one-time codes and limits; imports no torch."""
