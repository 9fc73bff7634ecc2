"""The REST APIs of OpenPAI 0.7.1 (v1), and of OpenPAI 1.8 and LTP 1.5 (v2). Common parts are in base."""
