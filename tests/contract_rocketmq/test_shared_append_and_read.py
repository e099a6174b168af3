from tests.contract.test_append_and_read import *  # noqa: F403
