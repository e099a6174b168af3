from tests.contract import test_positions
from tests.contract_rocketmq_door import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_retries_are_dropped_when_all_queues_are_reset": why.RETRIES,
    "test_retries_stay_when_one_queue_is_reset": why.RETRIES,
    "test_what_cannot_be_reset": why.TOPOLOGY,
}

globals().update(carried(test_positions, NOT_CARRIED))
