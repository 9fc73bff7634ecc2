"""The references and commands of a job protocol: found, checked, rendered."""
