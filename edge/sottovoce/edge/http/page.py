"""The owner's page: the device's state as JSON, beside the page's files."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from sottovoce.core.errors import InvalidInput
from sottovoce.core.http.messages import Request, Response
from sottovoce.core.http.page import PageServer
from sottovoce.core.http.server import Endpoint
from sottovoce.core.privacy.policies import POLICIES
from sottovoce.core.rpc.address import answers, socket_path
from sottovoce.edge.bundle import not_there
from sottovoce.edge.config import Config
from sottovoce.edge.http.requests import parsed, refuse
from sottovoce.edge.state.outbox import is_usable, standing
from sottovoce.edge.state.words import Lists
from sottovoce.edge.tasks import parts, spending_report
from sottovoce.edge.tasks.doctor import examine
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.privatize import MOST_DRAWS, Piece, Trial, settings, tried
from sottovoce.v1 import edge_agent_pb2 as agent

LONGEST_TEXT: Final = 10_000
"""The most characters of one tried text."""
MOST_TRIED: Final = 100_000
"""The most characters over all draws of a try: at worst, as single letters, 32 MB of pieces."""

_TRYING: Final = threading.Lock()
"""Held while a text is tried: one at a time, as each takes a while and all memory of its draws."""


def _json(value: Any) -> Response:
    return Response(json.dumps(value).encode())


def _overview(device: Parts, request: Request) -> Response:
    status = parts.status(device)
    return _json(
        {
            "version": status.version,
            "bundle": status.bundle_id,
            "missing": "" if status.bundle_id else str(not_there(device.config.bundle)),
            "backbone": status.backbone,
            "level": status.default_level,
            "mechanism": status.default_mechanism,
            "policy": device.config.chat.policy,
            "cloud": status.cloud_address,
            "policies": {name: each.about for name, each in POLICIES.items()},
            "levels": _levels(device.engine.current().bundle.manifest.calibration)
            if status.bundle_id
            else {},
            "adapters": [_adapter(record, status) for record in status.customizations],
        }
    )


def _levels(calibration: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the levels by mechanism, the strongest first."""
    return {
        mechanism: [
            {
                "name": name,
                "eta": level.eta,
                "replaced": level.replaced,
                "guessed": spending_report.guessed(level),
            }
            for name, level in sorted(levels.items(), key=lambda each: each[1].eta)
        ]
        for mechanism, levels in calibration.items()
    }


def _adapter(record: agent.Customization, status: agent.GetStatusResponse) -> dict[str, Any]:
    kept = [each for each in status.corrections if each.adapter == record.adapter]
    return {
        "name": record.adapter,
        "state": standing(record),
        "usable": is_usable(record),
        "examples": record.examples,
        "uploaded": record.uploaded,
        "accuracy": record.progress.held_out_accuracy,
        "message": record.message,
        "created": record.create_time.ToJsonString(),
        "corrections": sum(each.waiting + each.taken for each in kept),
    }


def _try(device: Parts, request: Request) -> Response:
    fields = parsed(request.body)
    text = fields.text("text")
    level, policy = fields.text("level", ""), fields.text("policy", "")
    draws = fields.whole("draws", 1, 1, MOST_DRAWS) or 1
    fields.end()
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(
            "the text is too long", fix=f"try at most {LONGEST_TEXT} characters", subject="text"
        )
    opened = device.engine.current()
    wanted = settings(opened, level, device.default.mechanism, [policy] if policy else POLICIES)
    if len(text) * draws * len(wanted) > MOST_TRIED:
        raise InvalidInput(
            f"{draws} draws of {len(text)} characters under {len(wanted)} settings are too many",
            fix="choose a level or a policy, or try at most"
            f" {MOST_TRIED // (draws * len(wanted))} characters",
            subject="text",
        )
    with _TRYING:
        return _json([_trial(tried(opened, text, each, draws)) for each in wanted])


def _trial(trial: Trial) -> dict[str, Any]:
    told: dict[str, Any] = {"level": trial.setting.level, "policy": trial.setting.policy}
    if trial.refused:
        return told | {"refused": trial.refused}
    return told | {
        "eta": trial.eta,
        "guessed": trial.guessed,
        "charge": trial.charge,
        "draws": [
            [_piece(each, whole=not number) for each in draw]
            for number, draw in enumerate(trial.pieces())
        ],
    }


def _piece(piece: Piece, *, whole: bool) -> dict[str, Any]:
    """Return a piece; its kind and typed text, which all draws share, only if ``whole``."""
    told = {"text": piece.text, "became": piece.became, "kept": piece.kept}
    return told | {"hides": piece.hides, "typed": piece.typed} if whole else told


def _words(device: Parts, request: Request) -> Response:
    return _listed(device, device.words.lists())


def _change_words(device: Parts, request: Request) -> Response:
    fields = parsed(request.body)
    word, to = fields.text("word"), fields.text("to")
    fields.end()
    changes = {"allow": "allow", "hide": "hide", "none": "without"}
    if to not in changes:
        refuse(fields.where("to"), "is no list", f"use one of {', '.join(changes)}")
    return _listed(device, device.words.change(**{changes[to]: [word]}))


def _listed(device: Parts, lists: Lists) -> Response:
    """Return the lists that the page can change, and the configuration's lists."""
    own = device.config.hide
    fixed = {"allow": own.allow, "hide": own.words, "patterns": own.patterns}
    return _json({"allow": lists.allow, "hide": lists.hide, "fixed": fixed})


def _waiting(device: Parts, request: Request) -> Response:
    waiting = [asdict(each) for each in device.consent.waiting()]
    return _json({"asks": device.consent.needed, "waiting": waiting})


def _let_leave(device: Parts, request: Request) -> Response:
    fields = parsed(request.body)
    identity = fields.text("id")
    fields.end()
    device.consent.allow(identity)
    return _waiting(device, request)


def _ledger(device: Parts, request: Request) -> Response:
    status, spent = parts.status(device), spending_report.found(device.ledger.accounts)
    return _json(spending_report.told(status, spent, device.config.privacy.warn_after))


def _record(device: Parts, request: Request) -> Response:
    record = device.record
    return _json({"on": record.on, "left": [asdict(each) for each in record.recent()]})


def _doctor(device: Parts, request: Request) -> Response:
    found = examine(device.config, _answers, device.store)
    return _json([asdict(finding) for finding in found])


def _answers(config: Config) -> bool:
    """Return whether apps can reach this agent.

    A TCP address counts as reachable, because only a unix socket has a file to check.
    """
    path = socket_path(config.agent.listen)
    return path is None or answers(path)


ENDPOINTS: Final[dict[str, tuple[str, Callable[[Parts, Request], Response]]]] = {
    "/api/overview": ("GET", _overview),
    "/api/try": ("POST", _try),
    "/api/words": ("GET", _words),
    "/api/words/change": ("POST", _change_words),
    "/api/waiting": ("GET", _waiting),
    "/api/waiting/allow": ("POST", _let_leave),
    "/api/ledger": ("GET", _ledger),
    "/api/record": ("GET", _record),
    "/api/doctor": ("GET", _doctor),
}
"""Method and endpoint by path."""


def page_server(device: Parts) -> PageServer:
    """Return the server of the owner's page.

    Raises:
        ConfigError: the page's address is not on loopback, or not free.
    """
    found: dict[str, tuple[str, Endpoint]] = {
        path: (method, partial(answer, device)) for path, (method, answer) in ENDPOINTS.items()
    }
    package = "sottovoce.edge.http"
    return PageServer(device.config.ui.address, "ui.address", package, found, "sotto ui")
