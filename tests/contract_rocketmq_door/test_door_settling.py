from tests.contract import test_settling
from tests.contract_rocketmq_door import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_acknowledging_twice_is_refused": why.TWICE,
    "test_deliveries_settle_what_their_receipt_handles_do": why.TWICE,
    "test_rejecting_moves_to_the_dead_letters_once": why.REASONS,
    "test_after_the_last_attempt_comes_the_dead_letter": why.REASONS,
    "test_dead_letters_are_read_by_another_group": why.TOPOLOGY,
    "test_a_delivery_from_before_settles_nothing_of_what_was_made_anew": why.TOPOLOGY,
}

globals().update(carried(test_settling, NOT_CARRIED))
