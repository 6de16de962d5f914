"""The parts of an agent over one state, and their status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from glob import escape

from sottovoce.core.errors import BundleMismatch, NotReady
from sottovoce.core.platform.files import sweep
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.search import GRAPHS, Graphs
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.connection import KNOWN_CLOUDS
from sottovoce.edge.client.generation import CloudWriter, Writer
from sottovoce.edge.config import Config
from sottovoce.edge.state.adapters import ADAPTERS
from sottovoce.edge.state.apps import Callers
from sottovoce.edge.state.conversations import Conversations
from sottovoce.edge.state.database import NoiseKeys, Store
from sottovoce.edge.state.device_key import key_in
from sottovoce.edge.state.ledger import Ledger, Record
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.state.words import Words
from sottovoce.edge.tasks.adapters import Adapters
from sottovoce.edge.tasks.chat import Chat
from sottovoce.edge.tasks.chat_request import Consent
from sottovoce.edge.tasks.engine import Engine
from sottovoce.edge.tasks.examples import Corrector
from sottovoce.edge.tasks.local_inference import Home
from sottovoce.edge.tasks.predict import Embedder, Predictor
from sottovoce.edge.tasks.privatize import Releases
from sottovoce.v1 import edge_agent_pb2 as agent


class Parts:
    """Opens and connects all parts of an agent over one state.

    The daemon uses these parts, and so do commands that run without a daemon.

    Args:
        engine: replaces the configured engine.
        lost: see `Store.open`.

    Raises:
        See `Store.open`.
    """

    def __init__(
        self,
        config: Config,
        engine: Engine | None = None,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        privacy = config.privacy
        self.config = config
        self.default = Setting(privacy.level, privacy.mechanism, privacy.policy)
        self.store = Store.open(config.agent.state, key_in(config.agent.key_place), lost)
        graphs = Graphs(config.agent.state / GRAPHS, self.store.seal.name)
        self.engine = engine or Engine.configured(
            config.bundle, privacy, config.tagger, graphs, config.hide
        )
        self.words = Words(self.store, config.hide.hiding)
        self.engine.heed(self.words.hiding)
        tidy(config)
        self.keyring = NoiseKeys(self.store)
        self.ledger = Ledger(self.store, privacy.ledger_limit)
        self.callers = Callers(self.ledger.apps)
        self.outbox = Outbox(self.store)
        self.record = Record(on=config.ui.record)
        self.cloud = Cloud(config.cloud)
        fetched = config.agent.state / ADAPTERS
        self.adapters = Adapters(self.cloud, self.outbox, self.ledger.accounts, fetched)
        self.corrector = Corrector(self.store, self.outbox, config.predict.corrections)
        self.releases = Releases(self.engine, self.keyring, self.ledger)
        self.home = Home(self.engine, self.cloud, self.outbox, fetched, config.predict.where)
        self.predictor = Predictor(
            self.releases, self.cloud, self.outbox, self.default, self.home, self.record
        )
        self.embedder = Embedder(
            self.engine,
            self.keyring,
            self.ledger,
            self.cloud,
            self.default.level,
            record=self.record,
        )
        self.writer = self._writer()
        self.consent = Consent(needed=config.chat.ask_first)
        self.conversations = Chat(
            self.engine,
            self.releases,
            Conversations(self.store, config.chat.keep_days),
            self.outbox,
            self.writer,
            Setting(privacy.level, privacy.mechanism, config.chat.policy),
            self.record,
            frozenset(config.chat.trusted_tools),
            self.consent,
        )

    def _writer(self) -> Writer:
        """Return the writer that answers conversations, as configured."""
        if self.config.chat.upstream:
            from sottovoce.edge.client.generation import OpenAIWriter  # only if configured

            def is_adapter(name: str) -> bool:
                return any(record.adapter == name for record in self.outbox.all())

            return OpenAIWriter(self.config.chat, is_adapter)
        return CloudWriter(self.cloud, self.outbox)

    def close(self) -> None:
        """Close the cloud's channel and the state."""
        self.cloud.close()
        self.store.close()


def status(parts: Parts) -> agent.GetStatusResponse:
    """Return the agent's contents and abilities."""
    from importlib.metadata import version  # here: it takes a megabyte

    response = agent.GetStatusResponse(
        version=version("sottovoce-edge"),
        default_level=parts.default.level,
        default_mechanism=parts.default.mechanism,
        cloud_address=parts.config.cloud.address,
        ledger=agent.LedgerStatus(limit=parts.ledger.limit, **asdict(parts.ledger.spending())),
        customizations=parts.outbox.all(),
        corrections=parts.corrector.status(),
    )
    try:
        bundle = parts.engine.current().bundle
    except BundleMismatch:
        raise
    except NotReady:
        return response
    response.bundle_id = bundle.id
    response.backbone = bundle.manifest.backbone.name
    levels = bundle.manifest.calibration.get(parts.default.mechanism, {})
    for name, level in levels.items():
        response.levels.add(
            name=name, eta=level.eta, replaced=level.replaced, map_attack=level.map_attack
        )
    for name, found in bundle.manifest.embed.items():
        response.embed_levels.add(name=name, eta=found.eta, map_attack=found.map_attack)
    return response


def tidy(config: Config) -> None:
    """Remove files that killed processes left half written, once they are an hour old.

    The files may hold a token or a head. In the state's folder this removes all half-written files.
    In other folders it removes only names that the agent writes.
    """
    state, bundle, token = config.agent.state, config.bundle, config.cloud.token_file
    sweep(state)
    for kept in (ADAPTERS, GRAPHS):
        for folder in (state / kept).glob("*/"):
            sweep(folder)
    sweep(bundle.path, KNOWN_CLOUDS)
    sweep(bundle.path, escape(bundle.current.name))
    if token is not None:
        sweep(token.parent, escape(token.name))
        sweep(token.parent, f"{escape(token.name)}.*.new")  # left by an enrolment
    if config.source is not None:
        sweep(config.source.parent, escape(config.source.name))
