"""What each level recovers, measured with attacks on public text."""
