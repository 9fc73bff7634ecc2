"""What travels to the container of a PaiPythonTask: its method, and what the method uses."""
