"""The two dialects of the REST API, and which one a server speaks."""
