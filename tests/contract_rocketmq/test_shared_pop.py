from tests.contract.test_pop import *  # noqa: F403
