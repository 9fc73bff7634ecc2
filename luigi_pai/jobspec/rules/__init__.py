"""Rules for jobs that a JSON Schema cannot express."""
