"""The code that device and provider share; it never imports torch."""
