"""Arrays: one job whose instances do the work of several jobs of one container each."""
