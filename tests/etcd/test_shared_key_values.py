"""The contract of key-values, at the real etcd."""

from tests.contract import test_key_values
from tests.support.etcd.cluster import on_etcd
from tests.support.stores.carried import carried

pytestmark = on_etcd

globals().update(carried(test_key_values, {}))
