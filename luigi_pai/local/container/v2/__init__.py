"""OpenPAI's runtime for v2 tasks, with its plugins and exit codes."""
