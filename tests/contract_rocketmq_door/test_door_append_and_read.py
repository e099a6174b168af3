from tests.contract_rocketmq import carried as why
from tests.contract_rocketmq import test_shared_append_and_read

NOT_CARRIED: dict[str, str] = {}

globals().update(why.carried(test_shared_append_and_read, NOT_CARRIED))
