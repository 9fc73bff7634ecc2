"""The job launcher: queue, scheduler, attempts, retries, completion."""
