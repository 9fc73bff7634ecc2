"""The book: known submissions and job statuses. It looks up jobs and caches the responses."""
