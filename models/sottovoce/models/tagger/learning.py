"""What the training of the tagger and that of the name finder share: a loss, a pace, an average."""

import math
from collections.abc import Callable, Iterable
from typing import Final, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

NO_WORD: Final = 0
"""The set of what is allowed where there is no word, as bits: the empty one."""

Net = TypeVar("Net", bound=nn.Module)


def averaged(
    network: Net,
    losses: Iterable[tuple[float, Tensor]],
    learning_rate: float,
    memory: float,
    progress: Progress | None = None,
) -> Net:
    """Trains `network` by AdamW, a step for each loss; gives the running average of its weights.

    Args:
        network: what the losses are computed with.
        losses: the share of the training that has gone by and the loss of the next step, which is
            computed when it is asked for.
        learning_rate: at its highest, see `pace`.
        memory: share of the average that each step keeps.
        progress: told every twenty steps.
    """
    network.train()
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(memory))  # type: ignore[no-untyped-call]
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    for step, (done, loss) in enumerate(losses):
        optimizer.param_groups[0]["lr"] = learning_rate * pace(done)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        average.update_parameters(network)
        if progress and step % 20 == 0:
            progress(f"loss {loss.item():.3f}", int(done * 1_000), 1_000)
    return cast(Net, average.module).eval()


def pace(done: float) -> float:
    """Share of the learning rate when a share `done` of the training has gone by."""
    return min(done / 0.05, 1.0) * (1 + math.cos(math.pi * done)) / 2 + 0.001


def partial_loss(scores: Tensor, allowed: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean of -log P(an answer of the allowed set).

    Args:
        scores: (B, T, answers).
        allowed: (B, T) sets as bits; `NO_WORD` where there is none.
        weights: (B, T) of the words in the mean; equal ones if none are given.
    """
    bits = torch.arange(scores.shape[-1], device=scores.device)
    possible = (allowed.unsqueeze(-1) >> bits) & 1 == 1  # (B, T, answers)
    present = allowed != NO_WORD
    within = scores.masked_fill(~possible, float("-inf"))[present].logsumexp(-1)
    losses = scores[present].logsumexp(-1) - within
    if weights is None:
        return losses.mean()
    return (losses * weights[present]).sum() / weights[present].sum()
