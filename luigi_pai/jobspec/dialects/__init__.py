"""The formats that the servers' JavaScript reads and writes (YAML, mustache, JSON, numbers), and shell."""
