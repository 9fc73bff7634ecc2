"""Users, groups and tokens."""
