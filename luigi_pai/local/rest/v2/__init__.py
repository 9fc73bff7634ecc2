"""The v2 REST API, as OpenPAI 1.8 and LTP 1.5 have it."""
