"""Measure what attackers recover at each level, on public text."""
