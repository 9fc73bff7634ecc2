"""The book: what is known of pieces of work and their jobs. The only place that looks up and remembers."""
