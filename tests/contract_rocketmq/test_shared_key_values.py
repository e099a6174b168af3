import pytest

from tests.contract import test_key_values
from tests.contract_rocketmq import carried as why

NOT_CARRIED: dict[str, str] = {}

globals().update(why.carried(test_key_values, NOT_CARRIED))


@pytest.fixture
def engine() -> str:
    """Key-values are facts beside the cluster, which takes no part."""
    return "model"
