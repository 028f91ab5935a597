"""Pages and blocks of the documentation as tests see them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `doc_blocks`, `doc_commands`
