"""How to talk to an OpenPAI cluster. No Luigi."""
