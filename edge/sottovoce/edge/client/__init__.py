"""The device's clients of the cloud and of other servers."""
