"""What strong attackers recover of releases: `python -m bench.attacks --quick`.

Why it is here: eta means nothing to the owner of a device, and the papers' attackers are weak. Here
a protection level is what the strongest attacker we can build achieves against it. Data flow one
way: `text` -> `channels` (what is released) -> `inversion` (guesses) -> `measures` -> `harness` ->
`parts`, shared out by `run` -> the table.
"""
