from tests.contract import test_fifo
from tests.contract_rocketmq_door import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_a_run_ends_before_one_that_waits": why.RELEASE,
    "test_another_attempt_gets_others": why.UNORDERED,
}

globals().update(carried(test_fifo, NOT_CARRIED))
