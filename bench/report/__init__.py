"""The privacy lab's figures as one page: `python -m bench.report`, or `make report`.

Why it is here: nobody reads fifty rows of a table to choose a level. The page shows what each level
costs and what attackers recover. Data flow one way: the JSON of `bench.attacks` -> `findings`
(sentences) and `pictures` (PNGs) -> `page` (HTML).
"""
