"""Manual pages from the commands' own help, one for each command.

Why it is here: what `sotto --help` says and what `man sotto` says are one text, so neither goes
stale. Pages are in roff's man macros, which man-db and mandoc read.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping

import click

from sottovoce.core.platform.console import EXIT_CODES

_PRINTED = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def pages(
    group: click.Command, name: str, *, version: str, date: str, files: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the manual pages of a program and of each command.

    A page has a name, for example "sotto-config-set", and its text.

    Args:
        date: as "2026-01-31".
        files: the program's paths and their purpose, for the first page.
    """
    for context in _contexts(click.Context(group, info_name=name)):
        sections = "".join(_sections(context, files))
        page = context.command_path.replace(" ", "-")
        head = f'.TH "{page.upper()}" 1 "{date}" "{name} {version}" "Commands"\n'
        yield page, head + sections


def _contexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    for name, command in _commands(context):
        yield from _contexts(click.Context(command, info_name=name, parent=context))


def _commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None, name
            yield name, found


def _sections(context: click.Context, files: Mapping[str, str]) -> Iterator[str]:
    command, path = context.command, context.command_path
    summary = command.get_short_help_str(200).rstrip(".")
    yield f".SH NAME\n{_text(path.replace(' ', '-'))} \\- {_text(summary)}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SH SYNOPSIS\n.B {_text(path)}\n{_line(usage)}\n"
    yield ".SH DESCRIPTION\n" + _paragraphs(command.help or summary)
    records = [p.get_help_record(context) for p in command.get_params(context)]
    yield ".SH OPTIONS\n" + "".join(_item(*r) for r in records if r and r[1])
    inner = list(_commands(context))
    if inner:
        yield ".SH COMMANDS\n" + "".join(
            _item(f"{path.replace(' ', '-')}-{name}(1)", found.get_short_help_str(200))
            for name, found in inner
        )
    if context.parent is None:
        codes = "".join(_item(str(code), meaning) for code, meaning in EXIT_CODES.items())
        yield f".SH EXIT STATUS\n{codes}"
        yield ".SH FILES\n" + "".join(_item(file, what) for file, what in files.items())
    else:
        up = context.parent.command_path.replace(" ", "-")
        yield f".SH SEE ALSO\n.BR {_text(up)} (1)\n"


def _paragraphs(text: str) -> str:
    made = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text).replace("\f", "")):
        lines = paragraph.splitlines()
        if lines[0] == "\b":  # click's sign that lines stay as they are
            made.append(".nf\n" + "".join(f"{_line(line)}\n" for line in lines[1:]) + ".fi\n")
        else:
            made.append(f"{_line(' '.join(map(str.strip, lines)))}\n")
    return ".PP\n".join(made)


def _item(term: str, meaning: str) -> str:
    return f".TP\n.B {_text(term)}\n{_line(meaning)}\n"


def _line(text: str) -> str:
    """Escape text that begins a line, where a dot would be a request."""
    text = _text(text)
    return rf"\&{text}" if text.startswith(".") else text


def _text(text: str) -> str:
    return "".join(_PRINTED.get(sign, sign) for sign in text).replace('"', r"\(dq")
