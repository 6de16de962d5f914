"""Worker, trainer, schedule, checkpoint."""
