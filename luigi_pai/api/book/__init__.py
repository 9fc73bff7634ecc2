"""The book: known submissions and statuses of jobs. It makes all lookups, and it alone caches the answers."""
