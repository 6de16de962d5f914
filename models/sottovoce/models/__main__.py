"""The ``sotto-models`` program."""

from __future__ import annotations

from sottovoce.core.platform.program import run


def main() -> None:
    """Run the command that was typed."""
    run("sottovoce.models.cli")


if __name__ == "__main__":
    main()
