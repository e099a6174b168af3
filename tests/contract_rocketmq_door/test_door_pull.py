from tests.contract import test_pull
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {}

globals().update(carried(test_pull, NOT_CARRIED))
