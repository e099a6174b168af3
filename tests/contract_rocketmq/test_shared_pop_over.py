from tests.contract import test_pop_over
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {}

globals().update(carried(test_pop_over, NOT_CARRIED))
