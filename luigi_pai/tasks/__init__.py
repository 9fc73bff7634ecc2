"""What the task classes share: a run of a task, its outputs, its record and completion flag."""
