from tests.contract import test_fifo
from tests.contract_rocketmq import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_an_expired_run_is_delivered_again_in_order": why.LATE_SETTLING,
    "test_a_run_ends_before_one_that_waits": why.RELEASE,
}

globals().update(carried(test_fifo, NOT_CARRIED))
