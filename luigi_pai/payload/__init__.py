"""The code and values that a PaiPythonTask sends to its containers: ``work``, and all that ``work`` uses."""
