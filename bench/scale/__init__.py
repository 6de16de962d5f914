"""What many machines on one state bear."""
