"""Jobs as clients and pages see them: rows, details, logs, events."""
