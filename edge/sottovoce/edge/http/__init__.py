"""The device's HTTP endpoints: OpenAI's API for programs, and a page for the owner's browser."""
