"""The two versions (dialects) of the REST API, v1 and v2, and the detection of a server's dialect."""
