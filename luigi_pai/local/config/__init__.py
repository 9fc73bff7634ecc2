"""What the local server is asked to be: settings, virtual clusters, request limits, fault rules."""
