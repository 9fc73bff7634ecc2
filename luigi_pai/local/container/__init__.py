"""Tasks as processes instead of containers: environment, scripts, files, exit codes."""
