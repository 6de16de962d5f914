"""Turns a document into words and tags, before any noise."""
