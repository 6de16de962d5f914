"""The database, tenants, quotas, names of adapters; no torch."""
