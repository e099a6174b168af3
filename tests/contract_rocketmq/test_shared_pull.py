from tests.contract import test_pull
from tests.contract_rocketmq import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_a_queue_that_came_back": why.COMES_BACK,
}

globals().update(carried(test_pull, NOT_CARRIED))
