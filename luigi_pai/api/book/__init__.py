"""The book: known submissions and statuses of jobs. It looks up jobs and caches the responses."""
