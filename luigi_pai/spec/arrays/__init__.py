"""Arrays: jobs of one container each as the instances of one job of the YAML protocol."""
