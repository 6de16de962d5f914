"""Answers computed on the device alone, with the backbone and the downloaded adapters."""
