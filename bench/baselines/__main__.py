"""``python -m bench.baselines``."""

from bench.baselines.run import main

main()
