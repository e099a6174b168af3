from tests.contract import test_key_values
from tests.contract_rocketmq import carried as why

NOT_CARRIED: dict[str, str] = {}

globals().update(why.carried(test_key_values, NOT_CARRIED))
