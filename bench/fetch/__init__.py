"""Download public data sets from their publishers, and convert them for the benches."""
