"""For the site: turn links from pages to sources into names of files, as it has no sources."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+([^)]*)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """
    >>> on_page_markdown("see [the bench](../bench/README.md) and [jobs](jobs.md)")
    'see the bench (`bench/README.md` of the sources) and [jobs](jobs.md)'
    """
    return _OUTSIDE.sub(r"\1 (`\2` of the sources)", markdown)
