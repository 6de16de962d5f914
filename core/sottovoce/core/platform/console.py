"""Shared parts of all commands: lazily imported groups, errors, interrupts, JSON, progress.

``--help`` must be quick on a small device, so a group imports a command only when it is called, and
suggests corrections.

Every command fails alike: ``error:`` and ``fix:`` on standard error, and an exit code by kind of
error. Standard output holds data alone. Output may hold text from other parties, so control
characters that a terminal would obey are removed.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from click.shell_completion import get_completion_class

from sottovoce.core.errors import InvalidInput, NotReady, Side, SottovoceError, speaking_to
from sottovoce.core.platform.files import DISK_FULL, refused_by_system
from sottovoce.core.platform.program import INTERRUPTED, raise_interrupts
from sottovoce.core.platform.threads import room_for_files

if TYPE_CHECKING:
    from rich.progress import Progress


_NOTE: Final = "sottovoce.interrupted"
_AS_JSON: Final = "sottovoce.as_json"
_GAP = "  "
_WHOLE = 10
"""The longest word, in letters, that a narrow column does not break."""
_NUMBER = r"[-+]?\d[\d,]*(\.\d+)?(%| ?[A-Za-z/]+)?"
_FIGURE = re.compile(rf"{_NUMBER}( +{_NUMBER})*|-?")
"""Numbers with their units, or nothing."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Command(click.Command):
    """A command that reports errors in the project's form, and has the option --json.

    Args:
        needs: what to install if a library that the command imports is missing.
    """

    def __init__(self, *args: Any, needs: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._needs = needs
        told = "Print JSON, one object a line; errors too."
        self.params.append(click.Option(["--json", "as_json"], is_flag=True, help=told))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; of a text in several words, say that it needs quotes."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            takes_text = any(param.name == "text" for param in self.params)
            if takes_text and "extra argument" in error.message:
                quoted = f'{error.message}. Put the text in quotes: "..."'
                raise click.UsageError(quoted, error.ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            raise_interrupts()
            room_for_files()
            if os.environ.get("NO_COLOR"):  # no-color.org; click does not read it
                ctx.color = False
            return super().invoke(ctx)
        except SottovoceError as error:
            _end(ctx, error)
        except ModuleNotFoundError as error:
            if not self._needs:
                raise
            problem = f"{error.name}, which this command needs, is not installed"
            _end(ctx, NotReady(problem, fix=f"pip install '{self._needs}'"))
        except (KeyboardInterrupt, click.Abort) as error:  # the second from a prompt
            if isinstance(error.__context__, EOFError):
                _end(ctx, InvalidInput("standard input ended before an answer", fix="type one"))
            # A second Ctrl-C during the clean-up ends the program at once, without a traceback.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            _report_interrupt(ctx)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # the reader of our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except UnicodeEncodeError as error:
            if "surrogates" not in error.reason:
                raise  # the terminal's encoding lacks a letter
            fix = "type it in a terminal with LANG=C.UTF-8"
            _end(ctx, InvalidInput("the text typed is not UTF-8", fix=fix))
        except OSError as error:
            if error.filename is None and error.errno not in DISK_FULL:
                raise  # a fault of the program, which keeps its traceback
            _end(ctx, refused_by_system(error))


def _end(ctx: click.Context, error: SottovoceError) -> NoReturn:
    _report(error, as_json=bool(ctx.params.get("as_json")))
    ctx.exit(error.exit_code)


def if_interrupted(problem: str, fix: str = "") -> None:
    """Set the message for Ctrl-C from now on.

    Args:
        problem: what was interrupted, and what goes on or is kept.
        fix: how to resume.
    """
    click.get_current_context().meta[_NOTE] = (problem, fix)


def _report_interrupt(ctx: click.Context) -> None:
    problem, fix = ctx.meta.get(_NOTE, ("", ""))
    if ctx.params.get("as_json"):
        told = {"code": "CANCELLED", "problem": problem or "interrupted", "fix": fix, "subject": ""}
        click.echo(_json({"error": told}), err=True)
        return
    click.echo(f"interrupted: {plain(problem, line=True)}" if problem else "interrupted", err=True)
    if fix:
        click.echo(f" next: {plain(fix, line=True)}", err=True)


def _report(error: SottovoceError, *, as_json: bool) -> None:
    if as_json:
        told = {
            "code": error.code.name,
            "problem": error.problem,
            "fix": error.fix,
            "subject": error.subject,
        }
        click.echo(_json({"error": told}), err=True)
    else:
        tell(error)


def tell(error: SottovoceError) -> None:
    """Print a problem and its fix for a person, on standard error."""
    click.echo(f"error: {plain(error.problem, line=True)}", err=True)
    if error.fix:
        click.echo(f"  fix: {plain(error.fix, line=True)}", err=True)


def plain(text: str, *, line: bool = False) -> str:
    """Return ``text`` without control characters that a terminal obeys.

    With ``line``, line breaks are replaced too.
    """
    shown = _CONTROLS.sub("\ufffd", text)
    return shown.replace("\n", "\ufffd") if line else shown


def print_json(value: Any) -> None:
    """Print one object on one line of standard output."""
    click.echo(_json(value))


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)  # which leaves some controls as they are
    return _CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str] = ()
) -> None:
    """Print rows under the names of their columns; no value is cut short.

    A file or pipe gets each row on one line. If a terminal is too narrow, columns of ``spare`` are
    left out first, and standard error names them. Then the widest values continue on a second line.
    The first column does not: it holds values that people copy. If that is not enough, the last
    columns are left out too. Numbers are aligned to the right.

    Args:
        spare: names of columns that readers can do without, the least important one first.
    """
    lines = [[name.upper() for name in columns]]
    lines += [[plain(value, line=True) for value in row] for row in rows]
    cells = dict(zip(columns, zip(*lines, strict=True), strict=True))
    widths = {name: max(map(len, cells[name])) for name in columns}
    right = {name for name in columns[1:] if all(map(_FIGURE.fullmatch, cells[name][1:]))}
    room = _room()
    left_out = [name for name in spare if _width(widths) > room and widths.pop(name, 0)]
    _fold(widths, cells, room)
    while _width(widths) > room and len(widths) > 1:
        left_out.append(widths.popitem()[0])
    for number in range(len(lines)):
        parts = [_folded(cells[name][number], width) for name, width in widths.items()]
        for line in zip_longest(*parts, fillvalue=""):
            padded = (
                text.rjust(width) if name in right else text.ljust(width)
                for text, (name, width) in zip(line, widths.items(), strict=True)
            )
            click.echo(_GAP.join(padded).rstrip())
    if left_out:
        told = (
            f"Left out in {room} columns: {', '.join(left_out)}. A wider terminal or --json shows "
        )
        print_text(told + "all columns.", err=True)


def print_text(text: str, *, indent: str = "", err: bool = False) -> None:
    """Print paragraphs, which continue on further lines of a terminal that is too narrow.

    Args:
        err: print on standard error.
    """
    for paragraph in text.split("\n"):
        lines = [paragraph]
        if len(paragraph) > _room():
            before = re.match(" *", paragraph)[0]  # type: ignore[index]  # it always matches
            lines = wrap(
                paragraph,
                _room(),
                subsequent_indent=indent or before,
                break_long_words=False,
                break_on_hyphens=False,
            )
        for line in lines:
            click.echo(line, err=err)


def print_fact(name: str, value: str, width: int) -> None:
    """Print a value beside its name, which takes ``width`` columns; control characters go."""
    print_text(f"{name:{width}}{plain(value, line=True)}", indent=" " * width)


def _room() -> int:
    """Return the terminal's columns; a file has room for everything."""
    return get_terminal_size((0, 0)).columns or sys.maxsize


def _folded(cell: str, width: int) -> list[str]:
    return [cell] if len(cell) <= width else wrap(cell, width)


def _width(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _fold(widths: dict[str, int], cells: Mapping[str, Sequence[str]], room: int) -> None:
    """Narrow the widest columns but the first, down to their longest word of `_WHOLE` letters."""
    least = {
        name: max(min(len(word), _WHOLE) for cell in cells[name] for word in cell.split() or [""])
        for name in list(widths)[1:]
    }
    while _width(widths) > room:
        name = max(least, key=lambda each: widths[each] - least[each], default="")
        if not name or widths[name] <= least[name]:
            return
        widths[name] -= 1


@contextmanager
def progress_bar(*, enabled: bool = True) -> Iterator[Progress]:
    """Return a progress display on standard error, a line a task; silent if that is no terminal."""
    # Imported here, which saves the daemon two megabytes.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        # What does not fit in 80 columns is cut: a second line would be drawn over the next bar.
        TextColumn(
            "{task.fields[note]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
        ),
        console=console,
        disable=not (enabled and console.is_terminal),
        transient=True,
        expand=True,
    ) as progress:
        yield progress


@contextmanager
def watch_stages(*, enabled: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback (stage, done, total) that draws one bar a stage on standard error."""
    with progress_bar(enabled=enabled) as bars:
        tasks = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, note="")
            bars.update(tasks[stage], completed=done, total=total)

        yield show


folder = click.Path(file_okay=False, path_type=Path)


def folder_option(name: str, default: str, text: str, **more: Any) -> Callable[[Any], Any]:
    return click.option(
        name, type=folder, default=Path(default), show_default=True, help=text, **more
    )


EXIT_CODES = {
    0: "done",
    1: "a fault of the program",
    2: "wrong arguments or input",
    3: "something must be done first",
    4: "no such adapter, level, job or bundle",
    5: "a limit is reached: ledger, quota, disk",
    6: "the other side does not answer; try again",
    7: "unknown tenant or wrong token",
    8: "a file is damaged",
    9: "an offset or number that the other side does not accept",
    78: "wrong configuration",
    INTERRUPTED: "interrupted",
}
"""The exit codes of both programs; `sottovoce.core.errors` maps errors to them."""


class LazyGroup(click.Group):
    """Knows its commands by name and summary before any is imported.

    Args:
        package: the package of the modules that define the commands.
        groups: the headings of the help; under each, its commands with one line each.
        modules: the module of each command that does not have the module of its own name. A name
            with a dot is a module of another distribution, which may not be installed.
        side: whose program it is, which decides what errors say to do.
    """

    def __init__(
        self,
        *args: Any,
        package: str,
        groups: Mapping[str, Mapping[str, str]],
        modules: Mapping[str, str] = MappingProxyType({}),
        side: Side = Side.DEVICE,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self._package = package
        self._groups = groups
        self._names = [name for each in groups.values() for name in each]
        self._modules = modules
        self._side = side

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = args[: args.index("--")] if "--" in args else args
        ctx.meta[_AS_JSON] = "--json" in options  # also where no command can be parsed
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "help":
            return self._help()
        if cmd_name not in self._names:
            return None
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        name = self._modules.get(cmd_name, cmd_name.replace("-", "_"))
        try:
            module = import_module(name if "." in name else f"{self._package}.{name}")
        except ModuleNotFoundError as error:
            if "." not in name or not f"{name}.".startswith(f"{error.name}."):
                raise
            distribution = "-".join(name.split(".")[:2])
            raise NotReady(
                f"{distribution}, which has this command, is not installed",
                fix=f"pip install {distribution}",
            ) from error
        return next(
            found
            for found in vars(module).values()
            if isinstance(found, click.Command) and found.name == cmd_name
        )

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with speaking_to(self._side):
                return super().invoke(ctx)
        except KeyboardInterrupt:  # while a command was imported
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except SottovoceError as error:  # likewise
            _report(error, as_json=ctx.meta[_AS_JSON])
            ctx.exit(error.exit_code)
        except click.UsageError as error:
            if not ctx.meta[_AS_JSON]:
                raise
            where = (error.ctx or ctx).command_path
            wrong = InvalidInput(error.format_message(), fix=f"see `{where} --help`")
            _report(wrong, as_json=True)
            ctx.exit(wrong.exit_code)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        asked = args[0]
        if self.get_command(ctx, asked) is None and not asked.startswith("-"):
            ctx.fail(f"there is no command {asked!r}: {self._instead(ctx, asked)}")
        return super().resolve_command(ctx, args)

    def _instead(self, ctx: click.Context, asked: str) -> str:
        near = difflib.get_close_matches(asked, self._names, 1, cutoff=0.6)
        if near:
            return f"did you mean `{ctx.command_path} {near[0]}`?"
        return f"`{ctx.command_path} --help` lists those there are"

    def _help(self) -> click.Command:
        @click.command("help", hidden=True)
        @click.argument("path", metavar="[COMMAND]...", nargs=-1)
        @click.pass_context
        def show(ctx: click.Context, path: tuple[str, ...]) -> None:
            assert ctx.parent is not None
            context, command = ctx.parent, ctx.parent.command
            for name in path:
                if not isinstance(command, click.Group):
                    break
                _, found, _ = command.resolve_command(context, [name])
                assert found is not None
                context = click.Context(found, info_name=found.name, parent=context)
                command = found
            click.echo(command.get_help(context))

        return show

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self._names))  # one column for all groups
        for heading, summaries in self._groups.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{width}}", told) for name, told in summaries.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


_SHELLS = ("bash", "zsh", "fish")
_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/{program}",
    "zsh": "a folder of $fpath, as _{program}",
    "fish": "~/.config/fish/completions/{program}.fish",
}


def version_command(program: str, package: str) -> click.Command:
    """Return a command that prints the installed versions."""

    @click.command("version", cls=Command)
    def command(as_json: bool) -> None:
        """Print the version."""
        found = version(package)
        python = ".".join(map(str, sys.version_info[:3]))
        if as_json:
            print_json({"version": found, "python": python})
        else:
            click.echo(f"{program} {found}, Python {python}")

    return command


def completion_command(program: str) -> click.Command:
    """Return a command that prints the shell script for completion."""

    @click.command("completion", cls=Command)
    @click.argument("shell", type=click.Choice(_SHELLS), required=False)
    @click.pass_context
    def command(ctx: click.Context, shell: str | None, as_json: bool) -> None:
        """Print the script that has SHELL complete commands and options.

        SHELL is $SHELL by default. Standard error says where to keep the script.
        """
        name = shell or os.path.basename(os.environ.get("SHELL", ""))
        found = get_completion_class(name)
        if found is None:
            ctx.fail(f"which shell? Name one of {', '.join(_SHELLS)}")
        root = ctx.find_root().command
        variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
        script = found(root, {}, program, variable).source()
        if as_json:
            print_json({"shell": name, "script": script})
            return
        click.echo(script)
        click.echo(f"keep it as {_PLACES[name].format(program=program)}", err=True)

    return command
