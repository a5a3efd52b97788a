import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { findTool } from '../debian.ts'
import { ServiceMissing } from './missing.ts'
import { prepare, preparedFolder } from './prepared.ts'

export type KafkaPrograms = Readonly<{
  java: string
  classpath: string
  /** Data of a broker that was never started. Each one has a copy. */
  template: string
  /** What the broker's classes look like in memory (AppCDS), so that it starts in half the time. Made by its first start. */
  archive: string
}>

export const kafkaFiles = path.join(import.meta.dirname, 'kafka')
export const loggingFlag = `-Dlog4j2.configurationFile=file:${path.join(kafkaFiles, 'log4j2.xml')}`
const fetchMsMax = 5 * 60_000
const clusterId = '5L6g3nShT-eMCtK--X86sw'

const fetchJars =
  'mvn -B -q -C -f "$2/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$1/jars"'
const format = `
  { cat "$2/server.properties"; echo "log.dirs=$1/template"; } > "$1/format.properties"
  for it in listeners advertised.listeners; do echo "$it=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"; done >> "$1/format.properties"
  echo controller.quorum.bootstrap.servers=127.0.0.1:2 >> "$1/format.properties"
  java -Xmx256M "$3" -Dkafka.logs.dir="$1" -cp "$1/jars/*" kafka.tools.StorageTool format --standalone -t ${clusterId} -c "$1/format.properties"`

let known: KafkaPrograms | ServiceMissing | null = null

/** Apache Kafka from Maven Central, for the Java of the machine, else of the Debian package when root may install it. */
export function kafkaPrograms(): KafkaPrograms {
  known ??= find()
  if (known instanceof ServiceMissing) throw known
  return known
}

function find(): KafkaPrograms | ServiceMissing {
  const java = findTool('java', 'default-jre-headless')
  if (java.kind === 'missing') return new ServiceMissing(java.why)
  const maven = findTool('mvn', 'maven')
  if (maven.kind === 'missing') return new ServiceMissing(maven.why)
  const name = path.join('kafka', `broker-${fingerprint()}`)
  const args = [kafkaFiles, loggingFlag]
  const problem = prepare({ name, script: `${fetchJars} &&${format}`, args, msMax: fetchMsMax })
  if (problem !== null) return new ServiceMissing(`Kafka could not be fetched by Maven: ${problem}`)
  const home = preparedFolder(name)
  const inHome = (file: string) => path.join(home, file)
  return { java: java.path, classpath: inHome('jars/*'), template: inHome('template'), archive: inHome('classes.jsa') }
}

/** So that other versions and settings have folders of their own. */
function fingerprint(): string {
  const hash = createHash('sha256')
  for (const file of ['pom.xml', 'server.properties']) hash.update(readFileSync(path.join(kafkaFiles, file)))
  return hash.digest('hex').slice(0, 12)
}
