"""Job descriptions as pure data: classes, validation, conversion, rendering. No I/O, no Luigi."""
