"""Configurations of load balancers in front of replicas and fronts."""
