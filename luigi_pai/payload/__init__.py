"""The code and values that a PaiPythonTask sends to its container: its method, and what the method uses."""
