"""The daemon: the gRPC service and its server."""
