"""How clients and pages see jobs: rows, details, logs, events, notifications."""
