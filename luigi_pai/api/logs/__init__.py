"""The logs of tasks: fetched in parts, read line by line, and the last lines of the task that failed."""
