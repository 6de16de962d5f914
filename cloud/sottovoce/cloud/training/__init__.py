"""Train adapters: worker, trainers, schedule, checkpoints."""
