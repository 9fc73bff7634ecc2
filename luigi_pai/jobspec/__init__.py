"""Job descriptions as data: classes, validation, conversion and rendering, without I/O or Luigi."""
