"""Train the denoiser that devices run, see `sottovoce.core.privacy.denoiser`."""
