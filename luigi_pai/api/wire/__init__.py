"""HTTP: requests to a rest-server, causes of failures, and responses."""
