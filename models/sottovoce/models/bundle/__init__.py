"""Builds bundles: the public data a device needs to privatise text for one backbone.

Why it is here: everything a device trusts, from the list of words to the noise of each level, is
decided once, here, by measurement, and written down with its hash. A bundle depends on the backbone
and on `models` only, and the same two give the same bytes.

    vocabulary -> space -> classes -> calibration -> indexes -> manifest
"""

from sottovoce.models.bundle.build import build

__all__ = ["build"]
