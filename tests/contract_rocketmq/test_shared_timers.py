from tests.contract.test_timers import *  # noqa: F403
