"""What the servers' JavaScript makes of text: YAML, mustache, JSON, numbers."""
