"""Checks of a device's setup, for the command and for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Final

import numpy as np

from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import Manifest, bundle_id
from sottovoce.core.bundle.signature import show_key
from sottovoce.core.errors import BundleMismatch, NotReady, SottovoceError
from sottovoce.core.platform.files import open_to_others, refused_by_system
from sottovoce.core.privacy import inspection, policies
from sottovoce.core.privacy.noise import SecureRandom
from sottovoce.core.privacy.policies import PrivacyLimits
from sottovoce.core.privacy.trust import TrustedWords
from sottovoce.core.text.context_finder import ContextFinder
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.config import Config, PrivacyConfig
from sottovoce.edge.state.database import NoiseKeys, Store
from sottovoce.edge.state.device_key import InCredential, key_in
from sottovoce.edge.state.ledger import Ledger
from sottovoce.edge.tasks.engine import open_current, open_reader, open_tagger, signer
from sottovoce.edge.tasks.spending_report import amount

_OF_THE_BUNDLE: Final = ("claims", "floors", "tagger", "finder")
"""Checks skipped if the bundle cannot be used: one failure is enough."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check.

    ``result`` is "OK", "FAIL" or "SKIP". ``reason`` is the error's reason, if any.
    """

    check: str
    result: str
    detail: str
    fix: str = ""
    reason: str = ""


def examine(
    config: Config, is_running: Callable[[Config], bool], store: Store | None = None
) -> Iterator[Finding]:
    """Check a device's setup step by step, and yield findings with their fixes.

    Changes nothing, except that it may create an empty state.

    Args:
        is_running: returns whether an agent answers.
        store: the running agent's store; None opens one and closes it afterwards.
    """
    checks: tuple[tuple[str, Callable[[Config], str]], ...] = (
        ("randomness", _randomness),
        ("state", lambda each: _state(each, store)),
        ("permissions", _permissions),
        ("bundle", _bundle),
        ("signature", _signature),
        ("claims", _claims),
        ("floors", _floors),
        ("tagger", _tagger),
        ("finder", _finder),
        ("daemon", lambda each: _daemon(each, is_running)),
    )
    failed: set[str] = set()
    for name, check in checks:
        if name in _OF_THE_BUNDLE and "bundle" in failed:
            yield Finding(name, "SKIP", "the bundle cannot be used")
            continue
        of_the_service = config.agent.key_place == "credential" and not InCredential().given
        if name == "state" and store is None and of_the_service:
            yield Finding(
                name, "SKIP", "its key is the service's: the page of `sotto ui` checks it"
            )
            continue
        finding = run(name, lambda check=check: check(config))  # type: ignore[misc]
        if finding.result == "FAIL":
            failed.add(name)
        yield finding
    if not config.cloud.address:
        yield Finding("cloud", "SKIP", "none configured; privatising works without")
        return
    with closing(Cloud(config.cloud)) as cloud:
        yield run("cloud", lambda: _cloud(config, cloud))
        yield run("tenant", lambda: _tenant(config, cloud))


def run(name: str, check: Callable[[], str]) -> Finding:
    """Run a check, which returns a message or raises, and return its finding."""
    try:
        return Finding(name, "OK", check())
    except SottovoceError as error:
        return Finding(name, "FAIL", error.problem, error.fix, error.reason)
    except OSError as error:
        refused = refused_by_system(error)
        return Finding(name, "FAIL", refused.problem, refused.fix, refused.reason)


def _randomness(_: Config) -> str:
    one, other = (SecureRandom().random((8,)) for _ in range(2))
    if np.array_equal(one, other):
        raise SottovoceError(
            "two draws of noise are equal",
            fix="do not use this device: its operating system gives no randomness",
        )
    return "two draws of noise differ"


def _state(config: Config, opened: Store | None) -> str:
    folder, place = config.agent.state, config.agent.key_place
    with nullcontext(opened) if opened else closing(Store.open(folder, key_in(place))) as store:
        spending = Ledger(store, config.privacy.ledger_limit).spending()
        keyring = NoiseKeys(store)
        keyring.current()  # opens
        epoch = keyring.epoch
    texts, spent = f"{spending.releases:,} texts released", f"{amount(spending.spent)} eta spent"
    return f"{folder}: {texts}, {spent}, noise key {epoch}"


def _permissions(config: Config) -> str:
    private = [path for path in config.agent.state.iterdir() if not path.is_dir()]
    if config.cloud.token_file is not None and config.cloud.token_file.exists():
        private.append(config.cloud.token_file)
    for path in private:
        if open_to_others(path):
            raise NotReady(f"other users can read {path}", fix=f"chmod 600 {path}")
    return f"{len(private)} private files are private"


def _bundle(config: Config) -> str:
    bundle = open_current(config.bundle)
    return f"{bundle.id}, backbone {bundle.manifest.backbone.name}, all files as built"


def _signature(config: Config) -> str:
    key = signer(config.bundle)
    if key is None:
        return "linked by hand: nobody is asked who made it; bundle.key would insist on a signature"
    return f"signed by {show_key(key)}"


def _claims(config: Config) -> str:
    bundle = open_current(config.bundle)
    accepted = config.bundle.accept_unchecked
    figures = inspection.inspect(bundle, config.bundle.language, accept_unchecked=accepted)
    if not figures:
        language = bundle.manifest.language
        return f"not checked, as you accepted: no lists of language {language!r} ship"
    shown = (
        f"{each.level} {each.found_attacked:.0%} (said {each.attacked:.0%})"
        for each in sorted(figures, key=lambda each: each.eta)
        if each.mechanism == config.privacy.mechanism and each.level and not each.word_class
    )
    changed = TrustedWords.of(bundle).changed
    words = f"; {changed} words treated more heavily than it says" if changed else ""
    return f"{len(figures)} measured; guessed at {', '.join(shown)}{words}"


def default_level(privacy: PrivacyConfig, manifest: Manifest) -> Level:
    """Return the level for requests that name none.

    Raises:
        NotFound, InvalidInput: the bundle has no such level. NotReady: the owner's limits refuse
            the level or the policy.
    """
    level = manifest.level(privacy.mechanism, privacy.level)
    floors = PrivacyLimits(privacy.largest_eta, privacy.least_policy)
    floors.check_etas(level.eta, *level.etas.values())
    floors.check_policy(policies.find(privacy.policy))
    return level


def _floors(config: Config) -> str:
    privacy = config.privacy
    level = default_level(privacy, open_current(config.bundle).manifest)
    return (
        f"{privacy.level} has eta {level.eta:.4g}, {privacy.largest_eta:g} is allowed; policy "
        f"{privacy.policy}, at least {privacy.least_policy}"
    )


def _tagger(config: Config) -> str:
    tagger = open_tagger(open_current(config.bundle), config.tagger)
    tags = tagger.tag(["The", "river", "runs", "."])
    return f"{config.tagger.backend}: " + " ".join(tagger.tagset[i] for i in tags.ids)


def _finder(config: Config) -> str:
    found = open_reader(open_current(config.bundle), config.privacy.finder)
    if found is None:
        return "none is installed: names are told by their looks"
    return "small, which ships with the device" if isinstance(found, ContextFinder) else "full"


def _daemon(config: Config, is_running: Callable[[Config], bool]) -> str:
    if not is_running(config):
        raise NotReady(f"no agent on {config.agent.listen}", fix="start it with `sotto serve`")
    return f"answers on {config.agent.listen}"


def _cloud(config: Config, cloud: Cloud) -> str:
    theirs = bundle_id(cloud.get_manifest("").manifest)
    ours = open_current(config.bundle).id
    if ours != theirs:
        raise BundleMismatch(
            f"{cloud.address} has bundle {theirs}, this device has {ours}", fix="run `sotto pull`"
        )
    return f"{cloud.address} answers, and has our bundle"


def _tenant(config: Config, cloud: Cloud) -> str:
    shown = cloud.certificate()
    told = f", with a certificate until {shown.ends:%Y-%m-%d}" if shown else ""
    cloud.check_tenant()
    return f"{config.cloud.tenant!r} is accepted{told}"
