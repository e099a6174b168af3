from tests.contract.test_pull import *  # noqa: F403
