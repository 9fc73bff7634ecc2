"""Brings jobs to their end: queue, scheduler, attempts, retries, completion."""
