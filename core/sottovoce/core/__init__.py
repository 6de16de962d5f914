"""What device and provider share; never torch."""
