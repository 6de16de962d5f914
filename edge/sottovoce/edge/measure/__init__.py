"""Measurements that the device makes of itself: utility and latency."""
