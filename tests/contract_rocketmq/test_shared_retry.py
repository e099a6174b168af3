from tests.contract.test_retry import *  # noqa: F403
