"""Guards a process that a test starts with this folder in PYTHONPATH: see ``guard.py``."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from guard import guard_connections

guard_connections()
