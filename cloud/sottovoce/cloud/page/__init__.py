"""A page for the provider's browser, on loopback: jobs, tenants and process metrics."""
