"""Packs what a PaiPythonTask sends to its containers: ``work``, and the code and values that it uses."""
