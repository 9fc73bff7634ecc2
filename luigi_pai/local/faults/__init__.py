"""Faults on request, for tests of clients: injected into the answers of the server."""
