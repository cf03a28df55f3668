"""The engine server: one thread owns the device, another reads requests, a third writes."""
