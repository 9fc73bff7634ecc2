"""Arrays: one job whose instances do the work of several single-container jobs."""
