// KafkaJS comes in by every mechanism: two records written and read in a group, and a wrong secret refused. Takes a file
// of logins (JSON), prints facts by login.
const { readFileSync } = require('fs')
const { Kafka, logLevel } = require('kafkajs')

function configuration(login, password, token) {
  const ssl = { ca: [readFileSync(login.authority)] }
  if (login.mechanism === 'mTLS') {
    return { ssl: { ...ssl, key: readFileSync(login.key), cert: readFileSync(login.certificate) } }
  }
  const mechanism = login.mechanism.toLowerCase()
  if (mechanism === 'oauthbearer') return { ssl, sasl: { mechanism, oauthBearerProvider: async () => ({ value: token }) } }
  return { ssl, sasl: { mechanism, username: login.user, password } }
}

function client(login, password, token, retries) {
  return new Kafka({
    brokers: login.bootstrap.split(','),
    clientId: 'kafkajs',
    logLevel: logLevel.NOTHING,
    retry: { retries },
    ...configuration(login, password, token),
  })
}

async function goAndCome(login) {
  const kafka = client(login, login.password, login.token, 20)
  const producer = kafka.producer()
  await producer.connect()
  const messages = [0, 1].map((partition) => ({ partition, value: `to ${partition}` }))
  await producer.send({ topic: login.topic, messages, acks: -1 })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: login.topic, sessionTimeout: 10000 })
  await consumer.connect()
  await consumer.subscribe({ topics: [login.topic], fromBeginning: true })
  const values = []
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString())
        if (values.length === 2) resolve()
      },
    })
  })
  await consumer.disconnect()
  return values.sort()
}

async function refused(login) {
  if (login.mechanism === 'mTLS') return true
  const admin = client(login, login.password + '?', login.token + '?', 0).admin()
  return admin.connect().then(() => false, (error) => error.name.includes('SASL'))
}

async function main() {
  const facts = {}
  for (const login of JSON.parse(readFileSync(process.argv[2]))) {
    facts[login.mechanism] = [await goAndCome(login), await refused(login)]
  }
  console.log(JSON.stringify(facts))
  process.exit(0)
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
