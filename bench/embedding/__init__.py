"""What an embedding gains from the cloud's help, and what sentence embeddings give away."""
