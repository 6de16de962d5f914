"""Jobs, uploads, deletion and wake-up; no torch."""
