"""What both sides run on, version by version and byte by byte."""
