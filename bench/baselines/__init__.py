"""Mechanisms of other authors, one module each, behind the interfaces of `bench.attacks`."""
