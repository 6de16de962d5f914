"""Random stand-ins for what has no neighbours in meaning: names, numbers, identifiers, and so on.

Every surrogate is made in two steps: `shape` reduces a word to what the release shows of it, `draw`
makes another of that shape and never meets the word. `surrogate` is the door to all kinds.
"""
