"""Trains the denoiser that devices run, see `sottovoce.edge.denoiser`."""
