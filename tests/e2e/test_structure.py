"""A text keeps its form under `names` (Markdown, tables, code, JSON, links), and comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from markdown_it import MarkdownIt

from tests.support.openai_endpoint import Door
from tests.support.openai_upstream import before_a_server
from tests.support.upstream_server import Server

RECORD = {
    "order_id": 68042,
    "name": "Zelphira Quarnivel",
    "tags": ["new", "urgent"],
    "paid": True,
    "note": None,
    "share": 0.25,
}
CODE = """\
def total(items: list[int], rate=0.2) -> float:
    # for Zelphira
    return sum(x ** 2 for x in items if x >= 3 and x != 7) * (1 + rate)
"""
TEXT = f"""\
# Report for Zelphira Quarnivel

1. **Jorvane** called, see [the page](https://brindlewick.org/a/b?x=1&y=2).
2. _Nothing_ else; ~~old~~ `inline code` and ***both***.
   - done at 10:30
   - ask `zelphira.quarnivel@example.org`

> quoted, with a rule below

---

| name | amount | share |
|:-----|-------:|------:|
| Zelphira | 1,200.50 | 12% |
| Jorvane | 37 | 3% |

```python
{CODE}```

~~~json
{json.dumps(RECORD)}
~~~
"""


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, bundle_folder: Path
) -> Iterator[tuple[Door, Server]]:
    with before_a_server(tmp_path_factory.mktemp("device"), bundle_folder) as found:
        yield found


@pytest.fixture(scope="module")
def left_and_shown(both: tuple[Door, Server]) -> tuple[str, str]:
    door, server = both
    answer = door.chat(TEXT)
    ((_, _, body),) = server.asked
    return body["messages"][0]["content"], answer.json["choices"][0]["message"]["content"]


def parsed(text: str) -> list[tuple[str, str, str, int]]:
    """Markdown's own view: what there is, by which marks, how deep."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    every = (each for token in reader.parse(text) for each in (token, *(token.children or ())))
    return [(each.type, each.tag, each.markup, each.level) for each in every]


def fenced(text: str) -> list[Any]:
    return [token for token in MarkdownIt("commonmark").parse(text) if token.type == "fence"]


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [shape(each) for each in value.values()]
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


def test_markdown_is_the_same_but_for_its_words(left_and_shown: tuple[str, str]) -> None:
    left, _ = left_and_shown
    assert parsed(left) == parsed(TEXT)
    for secret in ("Zelphira", "Quarnivel", "Jorvane", "68042", "zelphira.quarnivel"):
        assert secret not in left
    assert "1,200.50" in left  # an amount passes in conversations


def test_json_is_json_of_the_same_shape(left_and_shown: tuple[str, str]) -> None:
    left, _ = left_and_shown
    _, fence = fenced(left)
    found = json.loads(fence.content)
    assert shape(found) == shape(RECORD)
    assert (found["paid"], found["note"]) == (True, None)


def test_code_keeps_lines_signs_and_indentation(left_and_shown: tuple[str, str]) -> None:
    left, _ = left_and_shown
    fence, _ = fenced(left)

    def bones(code: str) -> list[str]:
        return [re.sub(r"[\w.]+( [\w.]+)*", "w", line) for line in code.splitlines()]

    assert bones(fence.content) == bones(CODE)
    assert re.match(r"def \w+\(", fence.content)


def test_links_are_links(left_and_shown: tuple[str, str]) -> None:
    left, _ = left_and_shown
    (link,) = re.findall(r"\]\((.*?)\)", left)
    url = urlsplit(link)
    assert url.scheme == "https"
    assert url.hostname
    assert url.hostname.endswith((".example.org", ".example.com", ".example.net"))
    assert link != "https://brindlewick.org/a/b?x=1&y=2"


def test_names_and_long_numbers_come_back(left_and_shown: tuple[str, str]) -> None:
    _, shown = left_and_shown
    assert parsed(shown) == parsed(TEXT)
    wanted = (
        "Zelphira Quarnivel",
        "| Zelphira |",
        "**Jorvane**",
        "| Jorvane |",
        "1,200.50",
        "68042",
        "zelphira.quarnivel@",
    )
    # The surrogates are random, and one or the other may be a word that stands elsewhere as well.
    assert sum(back in shown for back in wanted) >= len(wanted) - 2
