"""What RabbitMQ answers to each case: measured on 3.10.8, and held against whatever version is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.conformance.amqp.wire_client import Said

GOLDEN: Final[dict[str, Said]] = {
    case: tuple(answer) for case, answer in json.loads(Path(__file__).with_name("golden.json").read_bytes()).items()
}
