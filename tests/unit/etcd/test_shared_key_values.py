"""The contract of key-values, at a small etcd in this process."""

from tests.contract import test_key_values
from tests.support.stores.carried import carried

globals().update(carried(test_key_values, {}))
