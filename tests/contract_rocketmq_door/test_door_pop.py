from tests.contract import test_pop
from tests.contract_rocketmq_door import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_consumers_of_a_group_share_and_groups_do_not": why.RECEIVES_32,
    "test_status_tells_lag_and_what_is_in_flight": why.NOT_IN_FLIGHT,
}

globals().update(carried(test_pop, NOT_CARRIED))
