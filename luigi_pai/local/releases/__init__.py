"""What differs between releases of OpenPAI and LTP, as values of one class."""
