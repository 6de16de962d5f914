"""What the device measures of itself: utility, latency."""
