"""Differentially private training: clipping and noise, accounting, the trainer, the audit."""
