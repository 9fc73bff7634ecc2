"""The journal of a sweep: its events, the state that results from them, and its files."""
