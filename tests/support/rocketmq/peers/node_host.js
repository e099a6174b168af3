// rocketmq-client-nodejs for the tests, told by lines of JSON what to do: the verbs of python_host.py.
// In: [number, verb, arguments]. Out: {answer, result|error, code} or {pushed: handle, message|done}.
'use strict'
const fs = require('fs')
const grpc = require('@grpc/grpc-js')
const rocketmq = require('rocketmq-client-nodejs')

const SQL = 2
const TAG = 1
const RESOLUTIONS = { commit: 1, rollback: 2, unknown: 0 }
const said = JSON.parse(process.argv[2])
const clients = new Map()
const messages = new Map()
let last = 0
const next = () => ++last
const say = value => process.stdout.write(JSON.stringify(value) + '\n')
const quiet = { info () {}, warn () {}, error () {}, debug () {}, close () {} }

if (said.root_certificates) {
  const roots = fs.readFileSync(said.root_certificates)
  const plain = grpc.ChannelCredentials.createSsl
  grpc.ChannelCredentials.createSsl = () => plain(roots)
}

function options (others) {
  const sessionCredentials = said.access_key
    ? { accessKey: said.access_key, accessSecret: said.secret }
    : undefined
  if (said.as_published) return { endpoints: said.endpoints, namespace: '', logger: quiet, ...others }
  return {
    endpoints: said.endpoints,
    namespace: said.namespace || '',
    sslEnabled: Boolean(said.root_certificates),
    logger: quiet,
    requestTimeout: 10000,
    sessionCredentials,
    ...others
  }
}

function wanted (subscriptions) {
  return new Map(Object.entries(subscriptions).map(([topic, [kind, text]]) =>
    [topic, new rocketmq.FilterExpression(text, kind === 'sql' ? SQL : TAG)]))
}

async function keep (client, handle = next()) {
  await client.startup()
  clients.set(handle, client)
  return handle
}

function shown (message) {
  const token = next()
  messages.set(token, message)
  return {
    token,
    body: message.body.toString('base64'),
    topic: message.topic,
    tag: message.tag || '',
    keys: [...message.keys].sort(),
    properties: Object.fromEntries(message.properties),
    group: message.messageGroup || '',
    lite: message.liteTopic || '',
    id: message.messageId,
    attempt: message.deliveryAttempt,
    corrupted: Boolean(message.corrupted)
  }
}

const sleep = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000))

function listener (handle, busy, failures) {
  return {
    async consume (message) {
      say({ pushed: handle, message: shown(message) })
      if (message.deliveryAttempt <= failures) return rocketmq.ConsumeResult.FAILURE
      await sleep(busy)
      say({ pushed: handle, done: message.messageId })
      return rocketmq.ConsumeResult.SUCCESS
    }
  }
}

const verbs = {
  async producer ({ topics, resolution }) {
    const checker = {
      async check (message) {
        say({ checked: message.messageId })
        return RESOLUTIONS[resolution]
      }
    }
    return keep(new rocketmq.Producer(options({ topics, checker })))
  },

  async send ({ client, topic, body, tag, keys, properties, group, deliver_at, lite, priority, end }) {
    const message = { topic, body: Buffer.from(body, 'base64') }
    if (tag) message.tag = tag
    if (keys) message.keys = keys
    if (properties) message.properties = new Map(Object.entries(properties))
    if (group) message.messageGroup = group
    if (deliver_at) message.deliveryTimestamp = new Date(deliver_at * 1000)
    if (lite) message.liteTopic = lite
    if (priority !== undefined && priority !== null) message.priority = priority
    const producer = clients.get(client)
    let receipt
    if (end) {
      const transaction = producer.beginTransaction()
      receipt = await producer.send(message, transaction)
      if (end === 'commit' || end === 'rollback') await transaction[end]()
    } else {
      receipt = await producer.send(message)
    }
    return { id: receipt.messageId, recall: receipt.recallHandle, transaction: receipt.transactionId }
  },

  async recall ({ client, topic, handle }) {
    return (await clients.get(client).recallMessage(topic, handle)).messageId
  },

  async simple ({ group, subscriptions, wait }) {
    return keep(new rocketmq.SimpleConsumer(options({
      consumerGroup: group, subscriptions: wanted(subscriptions), awaitDuration: wait * 1000
    })))
  },

  async receive ({ client, count, invisible }) {
    return (await clients.get(client).receive(count, invisible * 1000)).map(shown)
  },

  async ack ({ client, token }) {
    await clients.get(client).ack(messages.get(token))
  },

  async change ({ client, token, seconds }) {
    await clients.get(client).changeInvisibleDuration(messages.get(token), seconds * 1000)
  },

  async push ({ group, subscriptions, busy = 0, failures = 0 }) {
    const handle = next()
    const messageListener = listener(handle, busy, failures)
    return keep(new rocketmq.PushConsumer(options({
      consumerGroup: group, subscriptions: wanted(subscriptions), messageListener
    })), handle)
  },

  async lite_push ({ group, topic, lite_topics: names }) {
    const handle = next()
    const consumer = await new rocketmq.LitePushConsumerBuilder().setClientConfiguration(options({}))
      .setConsumerGroup(group).bindTopic(topic).setMessageListener(listener(handle, 0, 0)).build()
    for (const name of names) await consumer.subscribeLite(name)
    clients.set(handle, consumer)
    return handle
  },

  async unsubscribe_lite ({ client, lite_topic: name }) {
    await clients.get(client).unsubscribeLite(name)
  },

  async shutdown ({ client }) {
    const found = clients.get(client)
    clients.delete(client)
    await (found.shutdown ? found.shutdown() : found.close())
  }
}

function codeOf (error) {
  return typeof error.code === 'number' ? error.code : null
}

require('readline').createInterface({ input: process.stdin }).on('line', async line => {
  const [number, verb, given] = JSON.parse(line)
  try {
    say({ answer: number, result: (await verbs[verb](given)) ?? null })
  } catch (error) {
    say({ answer: number, error: `${error.name}: ${error.message}`, code: codeOf(error) })
  }
})
process.on('unhandledRejection', error => { say({ unhandled: String(error) }) })
