"""The versions of Spark: which one is too old, and what one lacks."""

from __future__ import annotations

import re
from typing import Final

OLDEST: Final = (4, 0)
"""The first Spark with data sources in Python."""
FIRST_WITH_LIMITS: Final = (4, 2)
"""The first Spark that lets a Python source limit a batch, and asks it for its end."""
_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)")


class SparkVersionError(ImportError):
    """A Spark that is too old, with advice."""


def version_of(text: str) -> tuple[int, int]:
    """Return the first two numbers of a version, such as `4.0.1` or `4.1.0.dev2`. Raises SparkVersionError."""
    found = _NUMBERS.match(text)
    if found is None:
        raise SparkVersionError(f"Spark's version {text!r} has no two numbers")
    return int(found[1]), int(found[2])


def check_version(text: str) -> tuple[int, int]:
    """Return the first two numbers of a version that has Python data sources. Raises SparkVersionError."""
    version = version_of(text)
    if version < OLDEST:
        raise SparkVersionError(
            f"Spark {text} has no data sources in Python: install Spark {OLDEST[0]}.{OLDEST[1]} or newer "
            "(pip install 'entrepot[spark]')"
        )
    return version


def installed_version() -> tuple[int, int]:
    """Return the version of the installed PySpark. Raises SparkVersionError, and ImportError where there is none."""
    import pyspark

    return check_version(pyspark.__version__)


def lacks(text: str) -> str:
    """Return what a version of Spark lacks, as one line; empty for nothing."""
    if version_of(text) >= FIRST_WITH_LIMITS:
        return ""
    return (
        f"Spark {text} cannot limit a batch, nor tell the lag, as {FIRST_WITH_LIMITS[0]}.{FIRST_WITH_LIMITS[1]} can: "
        "maxOffsetsPerTrigger, maxBytesPerTrigger and --max-messages do not hold, and availableNow is one batch"
    )
