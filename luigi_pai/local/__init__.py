"""An OpenPAI on this machine, for development and tests."""
