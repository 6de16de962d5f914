"""How much of the text that people marked as private leaves the device unchanged?

A bound on noise covers only the words that get noise. These corpora mark names, addresses and
numbers by hand, and the release is checked against the marks.
"""
