from tests.contract.test_key_values import *  # noqa: F403
