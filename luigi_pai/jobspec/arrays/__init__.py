"""Arrays: one job whose instances do the work of several jobs that have one container each."""
