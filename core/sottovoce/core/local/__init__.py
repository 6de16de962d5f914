"""Answers given on the device alone: the backbone and the adapters that came home."""
