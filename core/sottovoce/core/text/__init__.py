"""Document -> words -> tags, before any noise."""
