"""How far a customisation is, in a line: for ``sotto customize`` and ``sotto logs``."""

from __future__ import annotations

from sottovoce.edge.cli import views
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["brief", "figures", "sentence"]


def figures(record: agent.Customization) -> str:
    """How training goes, as far as the cloud has told."""
    told = []
    if record.loss:
        told.append(f"loss {record.loss:.3f}")
    if record.reconstruction_loss:
        told.append(f"reconstruction loss {record.reconstruction_loss:.3f}")
    if record.held_out_accuracy:
        told.append(f"held-out accuracy {record.held_out_accuracy:.1%}")
    if record.examples_per_second:
        told.append(f"{record.examples_per_second:.0f} examples/s")
        told.append(f"{record.seconds_left:.0f} s left")
    return "  ".join([*told, record.message] if record.message else told)


def brief(record: agent.Customization) -> str:
    """The same in what a line of 80 columns has left beside a bar."""
    if record.message or not record.epochs:
        return record.message
    accuracy = record.held_out_accuracy
    told = f"accuracy {accuracy:.1%}" if accuracy else f"loss {record.loss:.3f}"
    return f"{told}  {record.seconds_left:.0f} s left" if record.seconds_left else told


def sentence(record: agent.Customization) -> str:
    """Where a customisation stands, its name in front."""
    name = f"{record.adapter} ({record.id[:8]})"
    waiting = f": {record.message}" if record.message else ""
    match record.state:
        case agent.CUSTOMIZATION_STATE_UPLOADING:
            return f"{name}: {record.uploaded} of {record.examples} uploaded{waiting}"
        case agent.CUSTOMIZATION_STATE_TRAINING if record.epochs:
            return f"{name}: epoch {record.epoch} of {record.epochs}  {figures(record)}"
        case agent.CUSTOMIZATION_STATE_SUCCEEDED:
            if not record.held_out_accuracy:  # private training holds nothing out
                return f"{name}: trained"
            return f"{name}: trained, held-out accuracy {record.held_out_accuracy:.1%}"
        case _:
            return f"{name}: {views.state_name(record).lower()}{waiting}"
