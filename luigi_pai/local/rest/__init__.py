"""The REST APIs: what they share (base), OpenPAI 0.7.1 (v1), OpenPAI 1.8 and LTP 1.5 (v2)."""
