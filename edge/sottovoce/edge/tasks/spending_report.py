"""The ledger in words: amounts spent and left, and the messages that they allow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sottovoce.core.bundle.levels import Level, strongest
from sottovoce.edge.state.ledger import DAYS, KINDS, MOST_CHARGED, Accounts
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_owner_pb2 as owner

WORDS: Final = 10
"""Words with noise in a typical message, the unit for the budget that is left."""

_NEAR: Final = 0.8
"""Share of the limit from which the owner is warned."""
_MOST: Final = 20
"""Largest number of purposes listed."""

MEANING: Final = (
    "The unit is eta. Every word that gets noise costs the eta of its kind, and costs add up: the "
    "more was released, the more a reader of all of it can tell. A text that is released or "
    f"embedded again is the same bytes and costs nothing, of the last {MOST_CHARGED:,} that were "
    "charged. A word that is drawn, such as a name or a number, costs nothing. Labels and private "
    "adapters have guarantees of their own, which are never added to these."
)


def found(accounts: Accounts) -> owner.GetSpendingResponse:
    """Return the spending of the last days, by day and by purpose."""
    response = owner.GetSpendingResponse(today=accounts.today)
    for each in accounts.since(accounts.today - DAYS + 1):
        response.accounts.add(
            day=each.day,
            kind=each.purpose.kind,
            name=each.purpose.name,
            spent=each.spent,
            releases=each.releases,
        )
    return response


def amount(eta: float) -> str:
    """Return an amount with up to four digits, or a whole number if it is large.

    >>> [amount(each) for each in (0, 14.9312, 364.26, 75, 1234567.89)]
    ['0', '14.93', '364.3', '75', '1,234,568']
    """
    return f"{eta:,.0f}" if abs(eta) >= 1000 else f"{eta:.4g}"


def guessed(level: Level) -> float:
    """Return the measured share of noisy words that the strongest attacker guesses."""
    return round(float(strongest(level.map_attack)), 4)


@dataclass(frozen=True, slots=True)
class Sum:
    """Spending under one heading: a day, or a purpose."""

    heading: str
    spent: float
    releases: int


def told(
    status: agent.GetStatusResponse, spending: owner.GetSpendingResponse, warn_after: int
) -> dict[str, Any]:
    """Return all figures as a dictionary, for displays other than lines of text."""
    return {
        "lines": lines(status),
        "warning": warning(status, warn_after),
        "days": [(each.heading, each.spent, each.releases) for each in by_day(spending)],
        "purposes": [(each.heading, each.spent, each.releases) for each in by_purpose(spending)],
        "meaning": MEANING,
    }


def by_day(spending: owner.GetSpendingResponse) -> list[Sum]:
    """Return the last days with any spending, newest first."""
    return _summed((_date(each.day), each) for each in spending.accounts)


def by_purpose(spending: owner.GetSpendingResponse) -> list[Sum]:
    """Return recent spending by purpose, largest first, with small amounts combined."""
    found = sorted(
        _summed(
            (" ".join(filter(None, (KINDS.get(each.kind, each.kind), each.name))), each)
            for each in spending.accounts
        ),
        key=lambda each: -each.spent,
    )
    others = found[_MOST:]
    if not others:
        return found
    return [
        *found[:_MOST],
        Sum("others", sum(e.spent for e in others), sum(e.releases for e in others)),
    ]


def warning(status: agent.GetStatusResponse, warn_after: int) -> str:
    """Return a warning for the owner before more is spent; empty if there is none.

    Args:
        warn_after: messages, as configured; see `PrivacyConfig`.
    """
    ledger = status.ledger
    if ledger.limit:
        share = ledger.spent / ledger.limit
        if share < _NEAR:
            return ""
        return f"{share:.0%} of your limit is spent; at the limit nothing more is released"
    most = warn_after * WORDS * _eta(status)
    if not most or ledger.spent < most:
        return ""
    return (
        f"as much is spent as {warn_after:,} messages of {WORDS} such words cost at "
        f"{status.default_level!r}, and no limit is set. No figure says where enough is: look at "
        "what it went to, then set privacy.ledger_limit or raise privacy.warn_after"
    )


def lines(status: agent.GetStatusResponse) -> list[tuple[str, str]]:
    """Return the amounts spent and left, each with its name."""
    ledger = status.ledger
    found = [("spent", spent(ledger))]
    if ledger.releases:
        found.append(("on average", f"{amount(ledger.spent / ledger.releases)} eta a text"))
    found.append(("left", _left(status)))
    if ledger.labels_randomized or ledger.labels_as_they_are:
        found.append(
            (
                "labels",
                f"{ledger.labels_randomized:,} with noise, epsilon "
                f"{ledger.label_epsilon:.4g} in sum; {ledger.labels_as_they_are:,} as they are",
            )
        )
    if ledger.adapters_private:
        found.append(
            (
                "adapters",
                f"{ledger.adapters_private} private, epsilon {ledger.adapter_epsilon:.4g} "
                f"and delta {ledger.adapter_delta:.2g} in sum",
            )
        )
    return found


def messages_left(status: agent.GetStatusResponse) -> int | None:
    """Return how many more messages of `WORDS` noisy words fit the limit.

    Returns None without a limit, or if the bundle has no figure for the configured level.
    """
    ledger, eta = status.ledger, _eta(status)
    if not ledger.limit or not eta:
        return None
    return max(0, int((ledger.limit - ledger.spent) / (WORDS * eta)))


def _eta(status: agent.GetStatusResponse) -> float:
    """Return eta of the configured level; 0 if the bundle does not have the level."""
    return next((each.eta for each in status.levels if each.name == status.default_level), 0.0)


def _date(day: int) -> str:
    return str((datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date())


def _summed(named: Iterable[tuple[str, owner.SpendingAccount]]) -> list[Sum]:
    """Sum amounts by heading, in the order of first appearance."""
    sums: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for heading, account in named:
        spent, releases = sums[heading]
        sums[heading] = spent + account.spent, releases + account.releases
    return [Sum(heading, *both) for heading, both in sums.items()]


def spent(ledger: agent.LedgerStatus) -> str:
    """Return the ledger's sum with its unit, the limit, and the number of texts."""
    texts = f"{ledger.releases:,} text{'s' * (ledger.releases != 1)}"
    if not ledger.limit:
        return f"{amount(ledger.spent)} eta on {texts}; you set no limit"
    return (
        f"{amount(ledger.spent)} of {amount(ledger.limit)} eta "
        f"({ledger.spent / ledger.limit:.0%}) on {texts}"
    )


def _left(status: agent.GetStatusResponse) -> str:
    ledger, messages = status.ledger, messages_left(status)
    if not ledger.limit:
        return "no limit: privacy.ledger_limit in the configuration sets one"
    left = f"{amount(max(0.0, ledger.limit - ledger.spent))} eta"
    if messages is None:
        return left
    return (
        f"{left}: about {messages:,} more messages of {WORDS} such words at "
        f"{status.default_level!r}, each at most {amount(WORDS * _eta(status))} eta"
    )
