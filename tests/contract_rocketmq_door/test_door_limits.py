from tests.contract import test_limits
from tests.contract_rocketmq_door import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_a_deleted_group_holds_nobody_up": why.RETRIES,
    "test_released_and_expired_messages_are_not_in_flight": why.RELEASE,
    "test_messages_of_a_compacted_topic_need_a_key": why.RETRIES,
}

globals().update(carried(test_limits, NOT_CARRIED))
