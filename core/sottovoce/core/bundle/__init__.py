"""The bundle, which the builder writes, and the networks and adapters that devices run with it."""
