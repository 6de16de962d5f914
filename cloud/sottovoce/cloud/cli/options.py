"""Options that several commands take, and their progress display."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from sottovoce.core.system.console import progress_bar

__all__ = ["folder", "state_option", "watch_stages"]

folder = click.Path(file_okay=False, path_type=Path)

state_option = click.option(
    "--state",
    type=folder,
    default=Path("sottovoce-state"),
    show_default=True,
    envvar="SOTTO_CLOUD_STATE",
    show_envvar=True,
    help="Folder of the server's state.",
)


@contextmanager
def watch_stages(*, enabled: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A callback (stage, done, total) that draws one bar a stage on standard error."""
    with progress_bar(enabled=enabled) as bars:
        tasks = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, note="")
            bars.update(tasks[stage], completed=done, total=total)

        yield show
