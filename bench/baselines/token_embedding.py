"""Noise on token embeddings over the full width (Split-and-Denoise section 3.3).

This is its baseline TokEmbPriv. Its clipping and its denoiser are left out: the attacker and the
cloud take posterior means of the noisy vectors.
"""

from __future__ import annotations

from dataclasses import replace

from bench.attacks.channels import Noised
from bench.attacks.interface import Floats
from bench.baselines.interface import eta_of_success

__all__ = ["full_width"]


def full_width(channel: Noised, embeddings: Floats, success: float) -> Noised:
    """Return ``channel`` over ``embeddings``, at the eta where MAP has ``success`` on tokens."""
    wide = replace(channel, mechanism="token-embedding, full width", rows=embeddings)
    return replace(wide, eta=eta_of_success(wide, success))
