"""The local server's settings, virtual clusters, rate limits and fault rules."""
