import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { ownFolder } from './folders.ts'
import { type KafkaPrograms, kafkaFiles, kafkaPrograms, loggingFlag } from './kafka-programs.ts'
import { freePort } from './port.ts'
import { Service } from './service.ts'

export type KafkaOptions = Readonly<{
  /** Lines of server.properties. */
  settings?: Readonly<Record<string, string | number>>
  /** Passwords by name. With them, clients must log in (SASL PLAIN). */
  users?: Readonly<Record<string, string>>
}>

const heap = ['-Xms256M', '-Xmx512M', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']
const answerMsMax = 2_000
/** Size, then the header: Metadata, version 1, correlation 1, no client id. Then the topics asked for: none. */
const metadataRequest = Buffer.from(['0000000e', '0003', '0001', '00000001', '0000', '00000000'].join(''), 'hex')

/** One broker of Kafka's defaults, but small, on loopback; its `url` is what clients call bootstrap servers. */
export async function startKafka(options: KafkaOptions = {}): Promise<Service> {
  const programs = kafkaPrograms()
  if (!existsSync(programs.archive)) await makeArchive(programs)
  return openBroker(programs, options, `-XX:SharedArchiveFile=${programs.archive}`)
}

/** A broker writes it when it ends. Of two processes that make it at once, the last wins. */
async function makeArchive(programs: KafkaPrograms): Promise<void> {
  const fresh = `${programs.archive}.${process.pid}`
  const broker = await openBroker(programs, {}, `-XX:ArchiveClassesAtExit=${fresh}`)
  await broker.stop()
  await broker.discard()
  renameSync(fresh, programs.archive)
}

async function openBroker(programs: KafkaPrograms, options: KafkaOptions, classesFlag: string): Promise<Service> {
  const [port, controllerPort, insidePort] = [await freePort(), await freePort(), await freePort()]
  const folder = ownFolder(null, 'kafka')
  const data = path.join(folder, 'data')
  const properties = path.join(folder, 'server.properties')
  try {
    mkdirSync(data)
    cpSync(programs.template, data, { recursive: true })
    const listeners = listenersOf({ port, controllerPort, insidePort }, options)
    writeFileSync(properties, propertiesOf({ ...listeners, 'log.dirs': data, ...options.settings }))
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
  const flags = [...heap, classesFlag, loggingFlag, `-Dkafka.logs.dir=${folder}`, '-cp', programs.classpath]
  return Service.open({
    name: 'Kafka',
    url: `127.0.0.1:${port}`,
    port,
    command: programs.java,
    args: [...flags, 'kafka.Kafka', properties],
    folder,
    account: null,
    answers: () => answers(options.users === undefined ? port : insidePort),
    stopSignal: 'SIGTERM',
    quitSignal: 'SIGKILL',
  })
}

type Ports = Readonly<{ port: number; controllerPort: number; insidePort: number }>

/** With users, the broker talks to itself by a port where nobody has to log in. */
function listenersOf(ports: Ports, { users }: KafkaOptions): Readonly<Record<string, string | number>> {
  const controller = `CONTROLLER://127.0.0.1:${ports.controllerPort}`
  const bootstrap = { 'controller.quorum.bootstrap.servers': `127.0.0.1:${ports.controllerPort}` }
  const open = `PLAINTEXT://127.0.0.1:${users === undefined ? ports.port : ports.insidePort}`
  if (users === undefined) {
    const listeners = `${open},${controller}`
    return { listeners, 'advertised.listeners': listeners, ...bootstrap }
  }
  const listeners = `SASL_PLAINTEXT://127.0.0.1:${ports.port},${open},${controller}`
  const accounts = Object.entries(users).map(([name, password]) => `user_${name}="${password}"`)
  const login = `org.apache.kafka.common.security.plain.PlainLoginModule required ${accounts.join(' ')};`
  return {
    ...{ listeners, 'advertised.listeners': listeners, ...bootstrap },
    'sasl.enabled.mechanisms': 'PLAIN',
    'listener.name.sasl_plaintext.plain.sasl.jaas.config': login,
  }
}

function propertiesOf(settings: Readonly<Record<string, string | number>>): string {
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`)
  return `${readFileSync(path.join(kafkaFiles, 'server.properties'), 'utf8')}\n${lines.join('')}`
}

/** Asks for the metadata: a broker that its controller lets work is in it. */
async function answers(port: number): Promise<boolean> {
  const answer = await ask(port, metadataRequest)
  // Size, correlation, number of brokers.
  return answer.length >= 12 && answer.readInt32BE(8) > 0
}

function ask(port: number, request: Buffer): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const socket = connect(port, '127.0.0.1', () => socket.write(request))
  socket.setTimeout(answerMsMax, () => socket.destroy(new Error('no answer')))
  socket.once('data', resolve)
  socket.once('error', reject)
  socket.once('close', () => reject(new Error('it hung up')))
  return promise.finally(() => socket.destroy())
}
