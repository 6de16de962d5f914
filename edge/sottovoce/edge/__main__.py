"""The ``sotto`` program."""

from __future__ import annotations

from sottovoce.core.platform.program import run


def main() -> None:
    """Run the command that was typed."""
    run("sottovoce.edge.cli")


if __name__ == "__main__":
    main()
