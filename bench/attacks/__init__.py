"""Strong attacks on releases, and the share they recover: `python -m bench.attacks --quick`.

An eta says nothing to the owner of a device, and the papers' attackers are weak. So each protection
level is stated as the success of the strongest attacker that we can build.

Data flow: `text` -> `channels` (releases) -> `inversion` (guesses) -> `measures` -> `harness` ->
`run`, which spreads its jobs over processes -> the tables of `report`.
"""
