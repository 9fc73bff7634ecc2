"""Settings, virtual clusters and fault rules of the local server."""
