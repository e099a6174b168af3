from tests.contract.test_filters import *  # noqa: F403
