from tests.contract.test_positions import *  # noqa: F403
