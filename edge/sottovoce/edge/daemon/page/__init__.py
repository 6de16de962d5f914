"""A page for the owner's browser: the device's state, activity and releases."""
