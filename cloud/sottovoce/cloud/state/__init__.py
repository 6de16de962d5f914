"""The database, tenants, quotas and adapter names; imports no torch."""
