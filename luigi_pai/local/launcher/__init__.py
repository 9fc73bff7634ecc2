"""The launcher of jobs: queue, scheduler, attempts, retries, completion."""
