"""The value of the cloud's help for an embedding, and the leakage of sentence embeddings."""
