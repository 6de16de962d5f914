"""Backbones, training methods and adapters: the networks that training and serving share."""
