from tests.contract.test_settling import *  # noqa: F403
