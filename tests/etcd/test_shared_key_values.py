"""The contract of key-values, at the real etcd."""

from tests.contract import test_key_values
from tests.contract_rocketmq.carried import carried
from tests.support.etcd.cluster import on_etcd

pytestmark = on_etcd

globals().update(carried(test_key_values, {}))
