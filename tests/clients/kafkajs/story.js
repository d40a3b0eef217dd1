// What KafkaJS makes of a cluster: topics, an idempotent producer, a group of two, transactions. Prints JSON facts.
const { Kafka, logLevel, ConfigResourceTypes } = require('kafkajs')

const [bootstrap, name] = process.argv.slice(2)
const kafka = new Kafka({ brokers: bootstrap.split(','), clientId: name, logLevel: logLevel.NOTHING, retry: { retries: 20 } })
const facts = {}
const topic = `${name}-topic`
const group = `${name}-group`

async function topics(admin) {
  facts.created = await admin.createTopics({
    topics: [{ topic, numPartitions: 3, replicationFactor: 3, configEntries: [{ name: 'retention.ms', value: '3600000' }] }],
  })
  facts.createdAgain = await admin.createTopics({ topics: [{ topic, numPartitions: 3 }] })
  await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
  let described
  do {
    // The broker that is asked hears of the fourth partition when the controller tells it.
    described = await admin.fetchTopicMetadata({ topics: [topic] })
  } while (described.topics[0].partitions.length < 4)
  facts.partitions = described.topics[0].partitions.map((each) => [each.partitionId, each.replicas.length]).sort()
  await admin.alterConfigs({
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '7200000' }] }],
  })
  const configs = await admin.describeConfigs({
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['retention.ms', 'cleanup.policy'] }],
  })
  facts.configs = configs.resources[0].configEntries.map((each) => [each.configName, each.configValue, each.isDefault]).sort()
  facts.brokers = (await admin.describeCluster()).brokers.length
}

async function produced() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const messages = [...Array(300).keys()].map((n) => ({ key: `k${n % 17}`, value: `v${n}`, headers: { n: `${n}` } }))
  const reports = await producer.send({ topic, messages, acks: -1 })
  facts.produced = reports.map((each) => [each.partition, each.baseOffset, each.errorCode]).sort()
  await producer.disconnect()
}

// Runs one consumer until `enough` says so.
async function consumed(groupId, target, count, settings = {}) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10000, heartbeatInterval: 500, ...settings })
  await consumer.connect()
  await consumer.subscribe({ topics: [target], fromBeginning: true })
  const values = []
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString())
        if (values.length === count) resolve()
      },
    })
  })
  await consumer.stop() // which commits
  await consumer.disconnect()
  return values.sort()
}

async function twoMembers(admin) {
  const members = [0, 1].map(() => kafka.consumer({ groupId: group, sessionTimeout: 10000, heartbeatInterval: 300, rebalanceTimeout: 5000 }))
  const assigned = [0, 0]
  const values = new Set()
  let shared, all
  const isShared = new Promise((resolve) => (shared = resolve))
  const isAll = new Promise((resolve) => (all = resolve))
  for (const [index, member] of members.entries()) {
    member.on(member.events.GROUP_JOIN, ({ payload }) => {
      assigned[index] = (payload.memberAssignment[topic] || []).length
      if (assigned[0] === 2 && assigned[1] === 2) shared()
    })
    await member.connect()
    await member.subscribe({ topics: [topic], fromBeginning: true })
    await member.run({
      eachMessage: async ({ message }) => {
        values.add(message.value.toString())
        if (values.size === 300) all()
      },
    })
  }
  await Promise.all([isShared, isAll])
  facts.shared = assigned
  const [description] = (await admin.describeGroups([group])).groups
  facts.group = [description.state, description.protocolType, description.protocol, description.members.length]
  for (const member of members) await member.stop()
  for (const member of members) await member.disconnect()
  const [offsets] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
  facts.committed = offsets.partitions.map((each) => [each.partition, each.offset]).sort()
  facts.ends = (await admin.fetchTopicOffsets(topic)).map((each) => [each.partition, each.low, each.high]).sort()
}

async function transactions(admin) {
  const target = `${name}-target`
  await admin.createTopics({ topics: [{ topic: target, numPartitions: 1, replicationFactor: 3 }] })
  const settings = { transactionalId: name, idempotent: true, maxInFlightRequests: 1 }
  const producer = kafka.producer(settings)
  await producer.connect()
  for (const kept of [true, false, true]) {
    const transaction = await producer.transaction()
    await transaction.send({ topic: target, messages: [...Array(10).keys()].map((n) => ({ value: `${kept} ${n}` })) })
    await transaction.sendOffsets({
      consumerGroupId: `${group}-2`,
      topics: [{ topic, partitions: [{ partition: 0, offset: kept ? '7' : '99' }] }],
    })
    if (kept) await transaction.commit()
    else await transaction.abort()
  }
  facts.transacted = await consumed(`${group}-3`, target, 20, { readUncommitted: false })
  const [offsets] = await admin.fetchOffsets({ groupId: `${group}-2`, topics: [topic] })
  facts.sentOffsets = offsets.partitions.map((each) => [each.partition, each.offset]).sort()
  const zombie = await producer.transaction()
  await zombie.send({ topic: target, messages: [{ value: 'zombie' }] })
  const successor = kafka.producer(settings)
  await successor.connect()
  await (await successor.transaction()).abort()
  facts.fenced = await zombie.commit().then(() => 'committed', (error) => error.type || error.name)
  await successor.disconnect()
  await producer.disconnect()
}

async function refusals(admin) {
  const refused = (promise) => promise.then(() => 'done', (error) => (error.groups ? error.groups[0].errorCode : error.type))
  const impatient = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING, retry: { retries: 0 } })
  const bold = impatient.admin()
  await bold.connect()
  facts.refused = [
    await refused(bold.createTopics({ topics: [{ topic: 'not a name', numPartitions: 1, replicationFactor: 1 }] })),
    await refused(bold.deleteTopics({ topics: [`${name}-absent`] })),
    await refused(bold.deleteGroups([`${name}-absent`])),
    await refused(bold.fetchTopicMetadata({ topics: ['not a name'] })),
  ]
  await bold.disconnect()
  facts.deletedGroup = (await admin.deleteGroups([group])).map((each) => each.errorCode ?? 0)
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] })
  facts.low = (await admin.fetchTopicOffsets(topic)).find((each) => each.partition === 0).low
  await admin.deleteTopics({ topics: [topic] })
  facts.left = (await admin.listTopics()).includes(topic)
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  await topics(admin)
  await produced()
  await twoMembers(admin)
  await transactions(admin)
  await refusals(admin)
  await admin.disconnect()
  console.log(JSON.stringify(facts))
}

main().catch((error) => {
  console.error(error, JSON.stringify(facts))
  process.exit(1)
})
