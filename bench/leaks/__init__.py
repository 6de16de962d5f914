"""What of the text that people marked as private leaves the device as it was.

Why it is here: a bound on noise says nothing of a name that got none. Here somebody else has said
where the names, addresses and numbers are, and the release is held against that.
"""
