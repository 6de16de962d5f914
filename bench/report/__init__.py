"""The privacy lab's figures as one page: `python -m bench.report`, or `make report`.

The page helps an owner choose a level: it shows the cost of each level and the attackers' success.
Data flow: the JSON of `bench.attacks` -> `pictures` (PNGs) -> `page` (sentences and HTML).
"""
