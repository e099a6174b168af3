from tests.contract import test_append_and_read
from tests.contract_rocketmq_door import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_a_batch_is_refused_message_by_message": why.TOPOLOGY,
    "test_a_message_keeps_all_it_was_sent_with": why.PLACES,
    "test_reading_is_bounded": why.PLACES,
    "test_a_tail_from_an_offset_has_the_old_and_the_new_in_order": why.UNORDERED,
    "test_a_tail_from_the_end_has_only_what_is_new": why.AHEAD,
    "test_a_tail_may_close_itself_from_its_callback": why.AHEAD,
}

globals().update(carried(test_append_and_read, NOT_CARRIED))
