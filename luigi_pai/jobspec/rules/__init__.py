"""Rules of a job protocol that a JSON Schema cannot express."""
