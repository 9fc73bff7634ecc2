"""The v1 REST API, as OpenPAI 0.7.1 has it."""
