"""``python -m bench.baselines``."""

from bench.baselines.run import main

if __name__ == "__main__":
    main()
