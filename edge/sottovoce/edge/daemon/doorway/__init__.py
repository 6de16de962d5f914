"""HTTP as any OpenAI client speaks it, on loopback, beside the daemon's own socket."""
