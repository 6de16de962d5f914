"""Commands of the documents that are read by their programs and not run, with reasons.

A pattern that no command matches is stale, and fails a test. Commands to run before a page stand
here too.
"""

from __future__ import annotations

import re
from typing import Final

from tests.support.documented import Typed

NOT_TYPED: Final = {
    r"make help$": "lists the others",
    r"make ": "installs, builds, tests or measures: minutes, or tools of its own",
    r"python -m (bench|soak|tests|docs)\b": "measures, attacks or looks on for minutes",
    r"python3? -m venv ": "the folder has an environment",
    r"pip ": "asks a package registry",
    r"npm ": "asks a package registry",
    r"(sudo|apt-get) ": "needs root",
    r"grpcurl ": "is on few machines; the service read its method and message",
    r"sotto config set cloud.certificate ": "needs an authority's files; test_certificates.py does",
    r"sotto-models export ": "needs a model hub; test_encoder.py exports small models",
    r"sotto service ": "has systemd run something",
    r"sotto pull cloud.example.org": "is for another machine, where nothing is set; README pulls",
    r"sotto distill ": "has a server label hundreds of texts; test_distill.py has one",
    r"sotto enroll ": "needs a code that somebody reads out; test_enroll.py has one",
    r"sotto try .?My landlord Priya": "needs the package of a bundle; `make check-dist` types it",
    r"sotto bench$": "measures for a minute",
    r"sotto chat --show$": "needs a decoder in the cloud; test_generation.py converses so",
    r"sotto generate ": "needs a decoder in the cloud; test_generation.py does",
    r"sotto customize letters ": "needs a decoder in the cloud; test_generation.py does",
    r"sotto customize mail .*--dp-epsilon": "needs a thousand examples; bench.private_prompts does",
    r"sotto embed ": "needs the default model, for want of a denoiser; test_embed.py has it",
    r"sotto join ": "is for another device; test_fleet.py has one",
    r"sotto-(cloud|models) (build-bundle|train-|count-words|device-counts)": "minutes of work",
    r"sotto-cloud audit( |$)": "trains twice a hundred models",
    r"sotto-cloud serve .*(--decoder|/srv|--metrics|--tls-cert)": "starts as README's does",
    r"sotto-cloud ui ": "stays until it is ended; test_ui.py has one",
    r"sotto-cloud serve --bundle bundle": "a start like README's",
    r"sotto-cloud (replica|front|trainer|bundles publish) ": "test_roles.py has many machines",
    r"haproxy ": "is on few machines; test_balancing.py has it read what we write",
}
"""How a command begins, and why it is not typed."""

LOOKS: Final = (
    r"sotto (calibrate|status|list|doctor|ledger|licences|version|--help|apps|try)",
    r"sotto-cloud (jobs list|audit-log|status|--help|version)",
)
"""What only looks is run where a text but names it, too."""

FIRST: Final = ("README.md", "docs/tenants.md")
"""Pages that are read before the others: what these show is there afterwards."""

BEFORE: Final = {
    "docs/generation.md": ("sotto config set chat.upstream http://127.0.0.1:8080/v1",),
}
"""What a reader of a page has done who has read the README, and goes through the page anew."""

LATER: Final = r"echo "
"""What goes behind the rest of its page: it asks for the bundle that `make demo` leaves, and the
rest pulls one."""


def reason(typed: Typed) -> str | None:
    """The pattern that has a line not typed, if one has."""
    for part in typed.parts:
        for pattern in NOT_TYPED:
            if re.match(pattern, str(part)):
                return pattern
    return None


def looks(typed: Typed) -> bool:
    """Whether all that a line does is to show something."""
    return len(typed.parts) == 1 and any(re.match(p, str(typed.parts[0])) for p in LOOKS)


def later(typed: Typed) -> bool:
    """Whether a line is typed behind the rest of its page."""
    return re.match(LATER, typed.line) is not None
