// Kafka as `kcat` sees it: an independent client, in a process of its own, that checks what our driver says.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { kcatProgram } from './services/kafka-client.ts'

export type KcatRecord = Readonly<{
  topic: string
  partition: number
  offset: number
  /** Epoch milliseconds. */
  ts: number
  key: string | null
  payload: string | null
  /** Names and values in turn. */
  headers?: readonly string[]
}>

export type ToProduce = Readonly<{
  topic: string
  partition?: number
  headers?: readonly (readonly [string, string])[]
  /** Key and value; an empty one is none. Neither has tabs or newlines. */
  records: readonly (readonly [key: string, value: string])[]
}>

const separator = '\t'

export class Kcat {
  readonly #brokers: string
  readonly #settings: readonly string[]

  /** Settings as librdkafka names them, `name=value`. */
  constructor(brokers: string, settings: readonly string[] = []) {
    this.#brokers = brokers
    this.#settings = settings
  }

  async produce({ topic, partition, headers = [], records }: ToProduce): Promise<void> {
    const where = partition === undefined ? [] : ['-p', String(partition)]
    const extra = headers.flatMap(([name, value]) => ['-H', `${name}=${value}`])
    const lines = records.map(([key, value]) => `${key}${separator}${value}\n`)
    await this.#run(['-P', '-t', topic, ...where, ...extra, '-K', separator, '-Z', '-X', 'acks=all'], lines.join(''))
  }

  /** All records of a topic, by partition and offset. */
  async records(topic: string): Promise<readonly KcatRecord[]> {
    const printed = await this.#run(['-C', '-t', topic, '-J', '-e', '-o', 'beginning'])
    const lines = printed.toString().split('\n').filter(Boolean)
    const records = lines.map((line): KcatRecord => JSON.parse(line))
    return records.sort((a, b) => a.partition - b.partition || a.offset - b.offset)
  }

  /** Reads so many records as a member of a group, and commits them. */
  async consumeAs(group: string, topic: string, count: number): Promise<void> {
    const fromStart = ['-X', 'auto.offset.reset=earliest']
    await this.#run(['-G', group, '-c', String(count), ...fromStart, topic])
  }

  /** Every commit of a group in the broker's own log, the oldest first. */
  async commits(group: string): Promise<readonly KcatCommit[]> {
    // The length of key and value, then their bytes.
    const format = ['-f', '%K %S %k%s']
    const all = await this.#run(['-C', '-t', '__consumer_offsets', ...format, '-e', '-o', 'beginning'])
    return [...commitsIn(all)].filter((commit) => commit.group === group)
  }

  /** What the broker has of a group: the last commit of each partition. */
  async committed(group: string, topic: string): Promise<ReadonlyMap<number, KcatCommit>> {
    const commits = (await this.commits(group)).filter((commit) => commit.topic === topic)
    return new Map(commits.map((commit) => [commit.partition, commit]))
  }

  async #run(args: readonly string[], input = ''): Promise<Buffer> {
    const child = spawn(kcatProgram(), ['-b', this.#brokers, ...this.#settings.flatMap((it) => ['-X', it]), ...args])
    const out: Buffer[] = []
    const problems: Buffer[] = []
    child.stdout.on('data', (bytes) => out.push(bytes))
    child.stderr.on('data', (bytes) => problems.push(bytes))
    // It may end before it has read everything; its exit code says why.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(`kcat ${args.join(' ')}: exit ${code}\n${Buffer.concat(problems)}`)
    return Buffer.concat(out)
  }
}

export type KcatCommit = Readonly<{
  group: string
  topic: string
  partition: number
  offset: number
  /** Without the NUL that librdkafka sends at its end. */
  metadata: string
}>

/** Records of the topic where brokers keep commits: key versions 0 and 1 are commits, others are about groups. */
function* commitsIn(bytes: Buffer): Generator<KcatCommit> {
  for (let at = 0; at < bytes.length; ) {
    const keyEnd = bytes.indexOf(' ', at)
    const valueEnd = bytes.indexOf(' ', keyEnd + 1)
    const keySize = Number(bytes.subarray(at, keyEnd))
    const valueSize = Number(bytes.subarray(keyEnd + 1, valueEnd))
    const key = new Fields(bytes.subarray(valueEnd + 1, valueEnd + 1 + keySize))
    const value = new Fields(bytes.subarray(valueEnd + 1 + keySize).subarray(0, Math.max(valueSize, 0)))
    at = valueEnd + 1 + keySize + Math.max(valueSize, 0)
    if (key.int16() > 1 || value.isEmpty) continue
    const where = { group: key.text(), topic: key.text(), partition: key.int32() }
    const version = value.int16()
    const offset = value.int64()
    if (version >= 3) value.int32()
    const metadata = version >= 4 ? value.compactText() : value.text()
    yield { ...where, offset, metadata: metadata.replace(/\0$/, '') }
  }
}

class Fields {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isEmpty(): boolean {
    return this.#bytes.length === 0
  }

  int16(): number {
    this.#at += 2
    return this.#bytes.readInt16BE(this.#at - 2)
  }

  int32(): number {
    this.#at += 4
    return this.#bytes.readInt32BE(this.#at - 4)
  }

  int64(): number {
    this.#at += 8
    return Number(this.#bytes.readBigInt64BE(this.#at - 8))
  }

  text(): string {
    return this.#take(this.int16())
  }

  /** Its length, and one, stands before it as a number of seven bits a byte. */
  compactText(): string {
    let size = 0
    for (let unit = 1; ; unit *= 128) {
      const byte = this.#bytes.readUInt8(this.#at)
      this.#at += 1
      size += (byte % 128) * unit
      if (byte < 128) return this.#take(size - 1)
    }
  }

  #take(size: number): string {
    this.#at += size
    return this.#bytes.subarray(this.#at - size, this.#at).toString()
  }
}
