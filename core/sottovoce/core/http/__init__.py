"""HTTP/1.1 server on loopback, and the parts that the device's and the provider's page share."""
