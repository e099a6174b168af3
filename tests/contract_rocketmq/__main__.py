"""The table of docs/rocketmq-cluster.md, made of the contract's tests: python -m tests.contract_rocketmq docs"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.contract_rocketmq.table import write

if __name__ == "__main__":
    write(Path(sys.argv[1]))
