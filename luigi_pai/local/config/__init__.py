"""Settings, virtual clusters, request limits and fault rules of the local server."""
