"""What a job is: pure data, no I/O, no Luigi."""
