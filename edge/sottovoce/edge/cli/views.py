"""Messages as the plain dictionaries that --json prints.

Scripts depend on these shapes, so the code spells them out. Names are the same as in the protos.
Numbers stay numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from google.protobuf import timestamp_pb2
from google.protobuf.message import Message

from sottovoce.edge.state.outbox import is_usable, standing
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from sottovoce.v1 import training_pb2 as training


def _fields(message: Message, names: str) -> dict[str, Any]:
    """Return fields of a message by name, in the given order."""
    return {name: getattr(message, name) for name in names.split()}


def release(response: agent.PrivatizeResponse) -> dict[str, Any]:
    words = {"words": [*map(word, response.words)]}
    return {"text": response.text} | words | _fields(response, "level mechanism eta bundle_id")


def word(word: agent.ReleasedWord) -> dict[str, Any]:
    return {
        **_fields(word, "start end released_start released_end tag"),
        "treatment": treatment_name(word),
        **_fields(word, "protected replaced hides"),
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
        **_fields(ended, "prompt_tokens completion_tokens"),
        "restored": [_fields(each, "came shown times") for each in ended.restored],
        "doubtful": [_fields(each, "came times") for each in ended.doubtful],
        "addresses_kept": ended.addresses_kept,
        "left": [*map(turn, departed.turns)],
        **_fields(departed, "charged level mechanism policy eta bundle_id"),
    }


def _named(value: str) -> str:
    return value.removeprefix("FINISH_REASON_").removeprefix("ROLE_").lower()


def embedding(response: agent.EmbedResponse) -> dict[str, Any]:
    numbers = [round(value, 7) for value in response.embedding]
    return {"embedding": numbers} | _fields(response, "level eta tokens truncated bundle_id")


def treatment_name(word: agent.ReleasedWord) -> str:
    """Return a word's treatment without the enum's prefix, for example "NOISE"."""
    return agent.Treatment.Name(word.treatment).removeprefix("TREATMENT_")


def accuracy(record: agent.Customization) -> str:
    """Return the accuracy on the held-out part, or a dash if there is none."""
    found = record.progress.held_out_accuracy
    return f"{found:.1%}" if found else "-"


def customization(record: agent.Customization) -> dict[str, Any]:
    """Return a customisation and its progress."""
    return {
        **_fields(record, "id adapter"),
        "state": standing(record),
        **_fields(record, "examples uploaded job_id"),
        **_fields(record.progress, "epoch epochs loss reconstruction_loss held_out_accuracy"),
        **_fields(record.progress, "examples_per_second seconds_left"),
        "message": record.message,
        "create_time": record.create_time.ToJsonString(),
        **_fields(record, "bytes_sent adapter_id set_aside"),
        "privacy": _fields(record.privacy, "level mechanism policy"),
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
    ledger = (
        "spent limit releases label_epsilon labels_randomized labels_as_they_are adapters_private"
        " adapter_epsilon adapter_delta"
    )
    return {
        "running": running,
        **_fields(response, "version bundle_id backbone"),
        "levels": [_fields(each, "name eta replaced map_attack") for each in response.levels],
        **_fields(response, "default_level default_mechanism"),
        "embed_levels": [_fields(each, "name eta map_attack") for each in response.embed_levels],
        **_fields(response, "cloud_address openai_address"),
        "ledger": _fields(response.ledger, ledger),
        "customizations": [*map(customization, response.customizations)],
        "corrections": [_fields(each, "adapter waiting taken") for each in response.corrections],
    }
