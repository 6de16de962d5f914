"""OpenAI-compatible HTTP on loopback, beside the daemon's gRPC socket."""
