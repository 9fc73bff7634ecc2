"""What stands in for a container: environment, scripts, files, processes, exit codes."""
