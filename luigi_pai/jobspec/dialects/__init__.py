"""Text formats as the servers' JavaScript reads and writes them: YAML, mustache, JSON, numbers; and shell."""
