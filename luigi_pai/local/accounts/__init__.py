"""Users and tokens."""
