from tests.contract.test_fifo import *  # noqa: F403
