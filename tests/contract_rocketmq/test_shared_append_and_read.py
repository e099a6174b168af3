from tests.contract import test_append_and_read
from tests.contract_rocketmq import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_a_batch_is_refused_message_by_message": why.TOPOLOGY,
    "test_a_message_keeps_all_it_was_sent_with": why.PLACES,
}

globals().update(carried(test_append_and_read, NOT_CARRIED))
