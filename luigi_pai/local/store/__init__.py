"""What the server remembers: one SQLite file."""
