"""The ``sotto-cloud`` program."""

from __future__ import annotations

from sottovoce.core.platform.program import run


def main() -> None:
    """Run the command that was typed."""
    run("sottovoce.cloud.cli")


if __name__ == "__main__":
    main()
