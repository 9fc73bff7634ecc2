"""The book: known submissions and statuses of jobs. All lookups go through it, and it alone caches them."""
