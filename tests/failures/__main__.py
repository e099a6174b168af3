"""The table, written into the folder that is given: python -m tests.failures docs"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.failures.table import write

if __name__ == "__main__":
    write(Path(sys.argv[1]))
