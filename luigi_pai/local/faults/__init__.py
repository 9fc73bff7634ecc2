"""Fault injection, for tests of clients: requests to the server are delayed, fail or get no answer."""
