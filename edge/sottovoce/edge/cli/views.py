"""Messages as the plain dictionaries that --json prints.

Scripts depend on these shapes, so the code spells them out. Names are the same as in the protos.
Numbers stay numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from google.protobuf import timestamp_pb2

from sottovoce.edge.state.outbox import is_usable, standing
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from sottovoce.v1 import training_pb2 as training

__all__ = [
    "accuracy",
    "answer",
    "by_standing",
    "corrections",
    "customization",
    "day",
    "embedding",
    "prediction",
    "release",
    "status",
    "treatment_name",
    "turn",
    "where_name",
    "word",
]


def release(response: agent.PrivatizeResponse) -> dict[str, Any]:
    return {
        "text": response.text,
        "words": [*map(word, response.words)],
        "level": response.level,
        "mechanism": response.mechanism,
        "eta": response.eta,
        "bundle_id": response.bundle_id,
    }


def word(word: agent.ReleasedWord) -> dict[str, Any]:
    return {
        "start": word.start,
        "end": word.end,
        "released_start": word.released_start,
        "released_end": word.released_end,
        "tag": word.tag,
        "treatment": treatment_name(word),
        "protected": word.protected,
        "replaced": word.replaced,
        "hides": word.hides,
    }


def turn(turn: chats.DepartedTurn) -> dict[str, Any]:
    return {"role": _named(generation.Role.Name(turn.role)), "text": turn.released_text}


def prediction(response: agent.PredictResponse) -> dict[str, Any]:
    """Return the label and scores of a text."""
    return {
        "label": response.label,
        "scores": [{"label": s.label, "score": round(s.score, 6)} for s in response.scores],
        "released_text": response.released_text,
        "answered": where_name(response.answered),
    }


def where_name(where: agent.Where) -> str:
    """Return "device" or "cloud"."""
    return agent.Where.Name(where).removeprefix("WHERE_").lower()


def answer(departed: chats.Departed, text: str, ended: chats.Answered) -> dict[str, Any]:
    """Return an answer as shown and as received, with its release."""
    return {
        "text": text,
        "came": ended.came,
        "finish_reason": _named(generation.FinishReason.Name(ended.finish_reason)),
        "prompt_tokens": ended.prompt_tokens,
        "completion_tokens": ended.completion_tokens,
        "restored": [
            {"came": each.came, "shown": each.shown, "times": each.times} for each in ended.restored
        ],
        "doubtful": [{"came": each.came, "times": each.times} for each in ended.doubtful],
        "addresses_kept": ended.addresses_kept,
        "left": [*map(turn, departed.turns)],
        "charged": departed.charged,
        "level": departed.level,
        "mechanism": departed.mechanism,
        "policy": departed.policy,
        "eta": departed.eta,
        "bundle_id": departed.bundle_id,
    }


def _named(value: str) -> str:
    return value.removeprefix("FINISH_REASON_").removeprefix("ROLE_").lower()


def embedding(response: agent.EmbedResponse) -> dict[str, Any]:
    return {
        "embedding": [round(value, 7) for value in response.embedding],
        "level": response.level,
        "eta": response.eta,
        "tokens": response.tokens,
        "truncated": response.truncated,
        "bundle_id": response.bundle_id,
    }


def treatment_name(word: agent.ReleasedWord) -> str:
    """Return a word's treatment without the enum's prefix, such as "NOISE"."""
    return agent.Treatment.Name(word.treatment).removeprefix("TREATMENT_")


def accuracy(record: agent.Customization) -> str:
    """Return the accuracy on the held-out part, or a dash if there is none."""
    found = record.progress.held_out_accuracy
    return f"{found:.1%}" if found else "-"


def customization(record: agent.Customization) -> dict[str, Any]:
    """Return a customisation and its progress."""
    return {
        "id": record.id,
        "adapter": record.adapter,
        "state": standing(record),
        "examples": record.examples,
        "uploaded": record.uploaded,
        "job_id": record.job_id,
        "epoch": record.progress.epoch,
        "epochs": record.progress.epochs,
        "loss": record.progress.loss,
        "reconstruction_loss": record.progress.reconstruction_loss,
        "held_out_accuracy": record.progress.held_out_accuracy,
        "examples_per_second": record.progress.examples_per_second,
        "seconds_left": record.progress.seconds_left,
        "message": record.message,
        "create_time": record.create_time.ToJsonString(),
        "bytes_sent": record.bytes_sent,
        "adapter_id": record.adapter_id,
        "set_aside": record.set_aside,
        "privacy": {
            "level": record.privacy.level,
            "mechanism": record.privacy.mechanism,
            "policy": record.privacy.policy,
        },
        "method": training.Method.Name(record.method).removeprefix("METHOD_"),
        "task": training.Task.Name(record.task).removeprefix("TASK_"),
        "local": record.local,
    }


def corrections(response: agent.GetStatusResponse, adapter: str) -> dict[str, int]:
    """Return an adapter's counts of corrections: waiting, and in training."""
    kept = [each for each in response.corrections if each.adapter == adapter]
    return {
        "waiting": sum(each.waiting for each in kept),
        "taken": sum(each.taken for each in kept),
    }


def by_standing(records: Iterable[agent.Customization]) -> list[agent.Customization]:
    """Sort usable records first, and keep the order within both groups."""
    return sorted(records, key=lambda record: not is_usable(record))


def day(moment: timestamp_pb2.Timestamp) -> str:
    """Return the local date, as in "2026-05-04"."""
    return datetime.fromtimestamp(moment.ToSeconds()).astimezone().date().isoformat()


def status(response: agent.GetStatusResponse, *, running: bool) -> dict[str, Any]:
    return {
        "running": running,
        "version": response.version,
        "bundle_id": response.bundle_id,
        "backbone": response.backbone,
        "levels": [
            {
                "name": level.name,
                "eta": level.eta,
                "replaced": level.replaced,
                "map_attack": level.map_attack,
            }
            for level in response.levels
        ],
        "default_level": response.default_level,
        "default_mechanism": response.default_mechanism,
        "embed_levels": [
            {"name": level.name, "eta": level.eta, "map_attack": level.map_attack}
            for level in response.embed_levels
        ],
        "cloud_address": response.cloud_address,
        "openai_address": response.openai_address,
        "ledger": {
            "spent": response.ledger.spent,
            "limit": response.ledger.limit,
            "releases": response.ledger.releases,
            "label_epsilon": response.ledger.label_epsilon,
            "labels_randomized": response.ledger.labels_randomized,
            "labels_as_they_are": response.ledger.labels_as_they_are,
            "adapters_private": response.ledger.adapters_private,
            "adapter_epsilon": response.ledger.adapter_epsilon,
            "adapter_delta": response.ledger.adapter_delta,
        },
        "customizations": [customization(record) for record in response.customizations],
        "corrections": [
            {"adapter": each.adapter, "waiting": each.waiting, "taken": each.taken}
            for each in response.corrections
        ],
    }
