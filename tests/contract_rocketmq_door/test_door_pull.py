from tests.contract import test_pull
from tests.contract_rocketmq_door import carried as why

NOT_CARRIED: dict[str, str] = {}

globals().update(why.carried(test_pull, NOT_CARRIED))
