"""One-line progress, for ``sotto customize`` and ``sotto logs``."""

from __future__ import annotations

from sottovoce.edge.cli import views
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["brief", "figures", "left", "sentence"]


def left(name: str) -> tuple[str, str]:
    """Return the message of Ctrl-C while a customisation is followed."""
    return (
        f"no longer following {name}, which goes on in the agent and in the cloud",
        f"`sotto logs {name}` follows it again, `sotto cancel {name}` ends it",
    )


def figures(record: agent.Customization) -> str:
    """Return the training figures that the cloud has sent so far."""
    seen = record.progress
    told = []
    if seen.loss:
        told.append(f"loss {seen.loss:.3f}")
    if seen.reconstruction_loss:
        told.append(f"reconstruction loss {seen.reconstruction_loss:.3f}")
    if seen.held_out_accuracy:
        told.append(f"held-out accuracy {seen.held_out_accuracy:.1%}")
    if seen.examples_per_second:
        told.append(f"{seen.examples_per_second:.0f} examples/s")
        told.append(f"{seen.seconds_left:.0f} s left")
    return "  ".join([*told, record.message] if record.message else told)


def brief(record: agent.Customization) -> str:
    """Return the figures that fit beside a bar in a line of 80 columns."""
    seen = record.progress
    if record.message or not seen.epochs:
        return record.message
    accuracy = seen.held_out_accuracy
    told = f"accuracy {accuracy:.1%}" if accuracy else f"loss {seen.loss:.3f}"
    return f"{told}  {seen.seconds_left:.0f} s left" if seen.seconds_left else told


def sentence(record: agent.Customization) -> str:
    """Return a sentence with the adapter's name and its customisation's state."""
    name, seen = f"{record.adapter} ({record.id[:8]})", record.progress
    waiting = f": {record.message}" if record.message else ""
    match record.state:
        case agent.CUSTOMIZATION_STATE_UPLOADING:
            return f"{name}: {record.uploaded} of {record.examples} uploaded{waiting}"
        case agent.CUSTOMIZATION_STATE_TRAINING if seen.epochs:
            return f"{name}: epoch {seen.epoch} of {seen.epochs}  {figures(record)}"
        case agent.CUSTOMIZATION_STATE_SUCCEEDED:
            if not seen.held_out_accuracy:  # private training has no held-out part
                return f"{name}: trained"
            return f"{name}: trained, held-out accuracy {seen.held_out_accuracy:.1%}"
        case _:
            return f"{name}: {views.state_name(record).lower()}{waiting}"
