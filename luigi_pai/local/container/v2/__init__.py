"""What stands in for the containers of v2 jobs: OpenPAI's runtime with its plugins and exit codes."""
