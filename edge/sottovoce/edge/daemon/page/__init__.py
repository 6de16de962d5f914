"""A page for the owner's browser, on loopback: what the device holds, does and has given away."""
