"""The pages for people: the list of jobs, a job's page, its logs, the stop button."""
