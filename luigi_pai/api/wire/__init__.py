"""The wire: requests to a rest-server, why they fail, and what its answers say."""
