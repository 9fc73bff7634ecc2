"""The two versions (dialects) of the REST API, v1 and v2, and detection of the one that a server speaks."""
