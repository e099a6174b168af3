from tests.contract.test_transactions import *  # noqa: F403
