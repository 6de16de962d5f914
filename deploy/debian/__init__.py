"""The device as a Debian package: what `make deb` builds and `make check-deb` checks."""
