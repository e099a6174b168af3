from tests.contract import test_filters
from tests.contract_rocketmq_door import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_several_topic_filters_against_a_model": why.UNORDERED,
    "test_what_became_of_a_message_that_is_not_wanted": why.FINDS_NOTHING,
}

globals().update(carried(test_filters, NOT_CARRIED))
