"""Random surrogates for words without neighbours in meaning: names, numbers, identifiers etc.

Every surrogate is made in two steps. `shape` reduces a word to the shape that the release shows.
`draw` makes another text of that shape without seeing the word. `surrogate` handles all kinds.
"""
