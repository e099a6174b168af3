import pytest

from tests.contract import test_key_values
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {}

globals().update(carried(test_key_values, NOT_CARRIED))


@pytest.fixture
def engine() -> str:
    """Key-values are facts beside the cluster, which takes no part."""
    return "model"
