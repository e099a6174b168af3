import pytest

from tests.contract import test_namespaces
from tests.contract_rocketmq import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_topics_and_groups_need_their_namespace": why.TOPOLOGY,
    "test_only_an_empty_namespace_can_be_deleted": why.TOPOLOGY,
}

globals().update(carried(test_namespaces, NOT_CARRIED))


@pytest.fixture
def engine() -> str:
    """Empty namespaces are facts beside the cluster, which tells of the others by their names alone."""
    return "model"
