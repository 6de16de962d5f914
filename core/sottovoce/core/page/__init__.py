"""What the pages of both programs share: who may come in, what browsers are told, look, script."""
