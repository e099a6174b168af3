// amqplib for the tests: one process, many connections. Each line in is [number, handle, verb, arguments]; each line
// out is {answer, result|error} or {channel, delivered|returned|cancelled}. Handles name connections and channels.
'use strict'
const amqp = require('amqplib')

const connections = new Map()
const channels = new Map()
const say = value => process.stdout.write(JSON.stringify(value) + '\n')

const NAMES = {
  contentType: 'content_type',
  contentEncoding: 'content_encoding',
  headers: 'headers',
  deliveryMode: 'delivery_mode',
  priority: 'priority',
  correlationId: 'correlation_id',
  replyTo: 'reply_to',
  expiration: 'expiration',
  messageId: 'message_id',
  timestamp: 'timestamp',
  type: 'type',
  userId: 'user_id',
  appId: 'app_id'
}

function taken (message) {
  const properties = {}
  for (const [theirs, ours] of Object.entries(NAMES)) {
    if (message.properties[theirs] !== undefined) properties[ours] = message.properties[theirs]
  }
  return { ...message.fields, body: message.content.toString('base64'), properties }
}

function refusal (error, scope) {
  const said = /(\d{3}) \([A-Z-]+\) with message "(.*)"$/s.exec(error.message)
  return said ? { scope, code: Number(said[1]), text: said[2] } : null
}

function connect (handle, { options }) {
  return amqp.connect({ protocol: 'amqp', hostname: '127.0.0.1', ...options }, { timeout: 15000 }).then(model => {
    const kept = { model, refused: null }
    model.on('error', error => { kept.refused = refusal(error, 'connection') })
    connections.set(handle, kept)
  })
}

async function open (handle, { connection, confirms }) {
  const { model } = connections.get(connection)
  const channel = await (confirms ? model.createConfirmChannel() : model.createChannel())
  const kept = { channel, confirms, held: new Map(), refused: null, connection: connections.get(connection) }
  channel.on('error', error => { kept.refused = refusal(error, 'channel') })
  channel.on('return', message => say({ channel: handle, returned: taken(message) }))
  channels.set(handle, kept)
}

function publish ({ channel, confirms }, { exchange, key, body, options }) {
  const content = Buffer.from(body, 'base64')
  if (!confirms) {
    channel.publish(exchange, key, content, options)
    return true
  }
  return new Promise((resolve, reject) => {
    channel.publish(exchange, key, content, options, error => {
      if (error && error.message !== 'message nacked') reject(error)
      else resolve(!error)
    })
  })
}

async function get (kept, { queue, noAck }) {
  const message = await kept.channel.get(queue, { noAck })
  if (!message) return null
  kept.held.set(message.fields.deliveryTag, message)
  return taken(message)
}

async function consume (kept, { queue, options }, handle) {
  let tag = options.consumerTag
  const take = message => {
    if (message === null) {
      say({ channel: handle, cancelled: tag })
      return
    }
    kept.held.set(message.fields.deliveryTag, message)
    say({ channel: handle, delivered: taken(message) })
  }
  tag = (await kept.channel.consume(queue, take, options)).consumerTag
  return tag
}

// what the server never delivered is settled all the same: the test wants to see what it says
const message = (kept, tag) => kept.held.get(tag) || { fields: { deliveryTag: tag } }

const verbs = {
  publish,
  get,
  consume,
  ack: (kept, { tag, multiple }) => kept.channel.ack(message(kept, tag), multiple),
  nack: (kept, { tag, multiple, requeue }) => kept.channel.nack(message(kept, tag), multiple, requeue),
  reject: (kept, { tag, requeue }) => kept.channel.reject(message(kept, tag), requeue),
  call: (kept, [name, ...given]) => kept.channel[name](...given)
}

async function done (handle, verb, given) {
  if (verb === 'connect') return connect(handle, given)
  if (verb === 'open') return open(handle, given)
  if (verb === 'leave') return connections.get(handle).model.close()
  if (verb === 'cut') return void connections.get(handle).model.connection.stream.destroy()
  return verbs[verb](channels.get(handle), given, handle)
}

function answered (number, handle, error) {
  const kept = channels.get(handle)
  const refused = refusal(error, kept ? 'channel' : 'connection') || (kept && (kept.refused || kept.connection.refused))
  say({ answer: number, error: String(error), refused })
}

require('readline').createInterface({ input: process.stdin }).on('line', line => {
  const [number, handle, verb, given] = JSON.parse(line)
  Promise.resolve().then(() => done(handle, verb, given)).then(
    result => say({ answer: number, error: null, result: result === undefined ? null : result }),
    // the event of the closed channel may come right behind
    error => setImmediate(answered, number, handle, error)
  )
}).on('close', () => process.exit(0))
