"""What lintian says of the package."""

from __future__ import annotations

from deploy.debian.check import unexpected

SAID = """\
E: sottovoce: unstripped-binary-or-object [usr/lib/sottovoce/a.so]
W: sottovoce: no-manual-page [usr/bin/sotto]
I: sottovoce: hardening-no-bindnow [usr/lib/sottovoce/a.so]
E: sottovoce: postinst-uses-something
N: 3 tags overridden
"""


def test_what_is_not_on_purpose_is_told() -> None:
    assert unexpected(SAID) == [SAID.splitlines()[1], SAID.splitlines()[3]]
    assert unexpected(SAID.splitlines()[0]) == []
