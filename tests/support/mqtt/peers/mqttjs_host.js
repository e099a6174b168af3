// MQTT.js for the tests: one process, many clients. Each line in is [number, client, verb, arguments]; each line out
// is {answer, result|error} or {client, message}.
'use strict'
const crypto = require('crypto')
const mqtt = require('mqtt')

const clients = new Map()
const say = value => process.stdout.write(JSON.stringify(value) + '\n')

function taken (topic, payload, packet) {
  const found = packet.properties || {}
  const user = []
  for (const [name, value] of Object.entries(found.userProperties || {})) {
    for (const each of [].concat(value)) user.push([name, each])
  }
  return {
    topic,
    payload: payload.toString('base64'),
    qos: packet.qos,
    retain: packet.retain,
    content_type: found.contentType || '',
    response_topic: found.responseTopic || '',
    correlation: found.correlationData ? found.correlationData.toString('base64') : '',
    user,
    expiry_seconds: found.messageExpiryInterval || 0,
    identifiers: [].concat(found.subscriptionIdentifier || [])
  }
}

// RFC 5802 and RFC 7677, the client's side
function scram (client, user, password) {
  const nonce = crypto.randomBytes(18).toString('base64')
  const bare = 'n=' + user + ',r=' + nonce
  const hmac = (key, text) => crypto.createHmac('sha256', key).update(text).digest()
  client.handleAuth = (packet, done) => {
    const first = packet.properties.authenticationData.toString()
    const [, r, s, i] = /^r=([^,]*),s=([^,]*),i=(\d+)$/.exec(first)
    const salted = crypto.pbkdf2Sync(password, Buffer.from(s, 'base64'), Number(i), 32, 'sha256')
    const key = hmac(salted, 'Client Key')
    const end = 'c=biws,r=' + r
    const proof = hmac(crypto.createHash('sha256').update(key).digest(), bare + ',' + first + ',' + end)
    proof.forEach((byte, at) => { proof[at] = byte ^ key[at] })
    const data = Buffer.from(end + ',p=' + proof.toString('base64'))
    done(null, {
      cmd: 'auth',
      reasonCode: 0x18,
      properties: { authenticationMethod: 'SCRAM-SHA-256', authenticationData: data }
    })
  }
  return Buffer.from('n,,' + bare)
}

const verbs = {
  connect (name, { url, options, login }, done) {
    if (options.will) options.will.payload = Buffer.from(options.will.payload, 'base64')
    const client = mqtt.connect(url, { reconnectPeriod: 0, manualConnect: true, ...options })
    if (login) {
      const first = scram(client, login.user, login.password)
      client.options.properties = { authenticationMethod: 'SCRAM-SHA-256', authenticationData: first }
    }
    clients.set(name, client)
    client.on('message', (topic, payload, packet) => say({ client: name, message: taken(topic, payload, packet) }))
    let isOver = false
    const once = (error, result) => { if (!isOver) { isOver = true; done(error, result) } }
    client.on('error', error => once(error))
    client.on('close', () => once(new Error('closed')))
    client.on('connect', packet => once(null, packet.sessionPresent))
    client.connect()
  },
  subscribe (name, { filters, properties }, done) {
    const options = properties ? { properties } : {}
    clients.get(name).subscribe(filters, options, (error, granted, packet) =>
      done(packet ? null : error, packet && packet.granted))
  },
  publish (name, { topic, payload, options }, done) {
    const given = options.properties
    if (given && given.correlationData) given.correlationData = Buffer.from(given.correlationData, 'base64')
    clients.get(name).publish(topic, Buffer.from(payload, 'base64'), options, error => done(error))
  },
  unsubscribe (name, filter, done) { clients.get(name).unsubscribe(filter, error => done(error)) },
  leave (name, _, done) { clients.get(name).end(false, {}, () => done(null)) },
  cut (name, _, done) {
    const client = clients.get(name)
    client.once('close', () => done(null))
    client.stream.destroy()
  }
}

require('readline').createInterface({ input: process.stdin }).on('line', line => {
  const [number, name, verb, given] = JSON.parse(line)
  const answer = (error, result) => say({ answer: number, error: error ? String(error) : null, result })
  try {
    verbs[verb](name, given, answer)
  } catch (error) {
    answer(error)
  }
}).on('close', () => process.exit(0))
