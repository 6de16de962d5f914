"""Builds bundles: the public data with which a device privatises text for one backbone.

A bundle holds everything that a device trusts, from the word list to the noise of each level. All
of it is measured here once and recorded with its hash. It depends only on the backbone and on the
models folder, and equal inputs give equal bytes.

    vocabulary -> space -> classes -> calibration -> indexes -> manifest
"""
