"""References and commands of a job protocol: search, checks, rendering."""
