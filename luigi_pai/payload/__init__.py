"""The code and values that a PaiPythonTask sends to its containers: ``work`` and everything it uses."""
