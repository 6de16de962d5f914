"""Configurations of load balancers before replicas and fronts."""
