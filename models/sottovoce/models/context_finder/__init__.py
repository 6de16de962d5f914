"""Trains the finder of names that reads the sentence."""
