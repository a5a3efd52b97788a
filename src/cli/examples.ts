import type { Command } from 'commander'

/** At least one for every command, by its path; shown by --help and in docs/cli.md. A comment begins with two blanks and #. */
export const examples: Readonly<Record<string, readonly string[]>> = {
  start: [
    'posthorn start',
    'posthorn start --database sqlite:./data/shop.db --port 4801 --log-level debug',
    'posthorn start --config ./posthorn.json',
  ],
  status: ['posthorn status', 'posthorn status --watch', 'posthorn status --tenant acme -o json'],
  send: [
    `posthorn send order.created '{"id":1}' --key order-1 --wait`,
    'jq -c . order.json | posthorn send order.created -',
    'posthorn send --batch --file events.ndjson  # each line is an event: {"type":"order.created","data":{…}}',
    'posthorn send order.created --batch < orders.ndjson  # each line is the data of one event',
    'posthorn send image.new --raw --content-type image/png --file cat.png',
  ],
  'endpoints create': [
    `posthorn endpoints create https://shop.example/hooks --types 'order.*,invoice.paid' --ordering key`,
    `posthorn endpoints create https://shop.example/hooks --retry '{"preset":"webhook","maxAttempts":8}' --rate-limit 50`,
    `posthorn endpoints create https://shop.example/hooks --breaker '{"threshold":10,"cooldown":"1m"}'`,
    `posthorn endpoints create --relay home --route github --types 'github.*'  # to a hub that connects here`,
  ],
  'endpoints list': ['posthorn endpoints list --status disabled'],
  'endpoints show': ['posthorn endpoints show ep_0aj52yfkm006yg2qmpeajzq'],
  'endpoints update': ['posthorn endpoints update ep_0aj52yfkm006yg2qmpeajzq --concurrency 2 --timeout 30s'],
  'endpoints pause': ['posthorn endpoints pause ep_0aj52yfkm006yg2qmpeajzq'],
  'endpoints resume': ['posthorn endpoints resume ep_0aj52yfkm006yg2qmpeajzq'],
  'endpoints secret': ['posthorn endpoints secret ep_0aj52yfkm006yg2qmpeajzq'],
  'endpoints rotate-secret': ['posthorn endpoints rotate-secret ep_0aj52yfkm006yg2qmpeajzq --keep-old-for 24h'],
  'endpoints test': [`posthorn endpoints test ep_0aj52yfkm006yg2qmpeajzq --type order.created --data '{"id":1}'`],
  'endpoints recover': [
    'posthorn endpoints recover ep_0aj52yfkm006yg2qmpeajzq --since 6h --dry-run',
    'posthorn endpoints recover ep_0aj52yfkm006yg2qmpeajzq --since 7d --only missing --rate 50  # backfill a new one',
  ],
  'endpoints delete': ['posthorn endpoints delete ep_0aj52yfkm006yg2qmpeajzq --yes'],
  'sources create': [
    'posthorn sources create github-main --provider github --secret - < webhook-secret.txt',
    `posthorn sources create stripe --provider stripe --secret whsec_… --key '{$.data.object.customer}'`,
    `posthorn sources create own --provider hmac --secret … --hmac '{"header":"x-signature","prefix":"sha256="}'`,
  ],
  'sources list': ['posthorn sources list --provider github'],
  'sources show': ['posthorn sources show github-main'],
  'sources update': [`posthorn sources update github-main --type 'github.{x-github-event}.{$.action?}'`],
  'sources secret': ['posthorn sources secret github-main'],
  'sources rotate-secret': ['posthorn sources rotate-secret stripe --secret - --keep-old-for 24h < new-secret.txt'],
  'sources delete': ['posthorn sources delete github-main --yes'],
  consume: [
    'posthorn consume --topic orders --group billing --handler ./billing.ts',
    'posthorn consume --topic orders --group thumbnails --handler ./resize.ts --engine process --workers 4',
  ],
  'relays create': ['posthorn relays create home', 'posthorn relays create plant-7 --tenant acme -o json'],
  'relays list': ['posthorn relays list --tenant acme'],
  'relays show': ['posthorn relays show home'],
  'relays rotate-key': ['posthorn relays rotate-key home --yes'],
  'relays revoke': ['posthorn relays revoke home --yes'],
  'events list': ['posthorn events list --type order.created --since 2h', 'posthorn events list --all -o jsonl'],
  'events show': ['posthorn events show evt_0aj52yq7c00ds3kx8w1hn5t'],
  'events body': ['posthorn events body evt_0aj52yq7c00ds3kx8w1hn5t > body.json'],
  'deliveries list': [
    'posthorn deliveries list --status failed --endpoint ep_0aj52yfkm006yg2qmpeajzq --since 2h',
    'posthorn deliveries list --key order-42  # was it delivered?',
    `posthorn deliveries list --status failed,pending --status-class 5xx --type 'order.*'`,
    'posthorn deliveries list --reason exhausted --all -o jsonl',
  ],
  'deliveries show': ['posthorn deliveries show dlv_0aj52yq7c04vb6zr2m9ye8k'],
  'deliveries retry': ['posthorn deliveries retry dlv_0aj52yq7c04vb6zr2m9ye8k'],
  upkeep: ['posthorn upkeep', 'posthorn upkeep --now -o json'],
  'dispatch pause': ['posthorn dispatch pause'],
  'dispatch resume': ['posthorn dispatch resume'],
  backup: ['posthorn backup ./backup/posthorn-2026-01-31.db', 'posthorn backup /mnt/backup/posthorn.db --with-key'],
  doctor: ['posthorn doctor', 'posthorn doctor -o json'],
  'deliveries cancel': [
    'posthorn deliveries cancel dlv_0aj52yq7c04vb6zr2m9ye8k',
    'posthorn deliveries cancel --endpoint ep_0aj52yfkm006yg2qmpeajzq --until 2h --dry-run',
  ],
  'dlq list': [
    'posthorn dlq list --group error --since 24h',
    'posthorn dlq list --group endpoint',
    'posthorn dlq list --endpoint ep_0aj52yfkm006yg2qmpeajzq --reason exhausted',
  ],
  'dlq show': ['posthorn dlq show dlv_0aj52yq7c04vb6zr2m9ye8k'],
  'dlq replay': [
    'posthorn dlq replay --endpoint ep_0aj52yfkm006yg2qmpeajzq --dry-run',
    `posthorn dlq replay --error 'HTTP 500' --since 6h --rate 100 --note 'fixed in 1.4.2' --follow`,
  ],
  'dlq discard': ['posthorn dlq discard --reason cancelled --dry-run', 'posthorn dlq discard --all --yes'],
  'replays list': ['posthorn replays list --status running'],
  'replays show': ['posthorn replays show rpl_0aj52z0d400q7c1tn5xk3mw --follow'],
  'replays pause': ['posthorn replays pause rpl_0aj52z0d400q7c1tn5xk3mw'],
  'replays resume': ['posthorn replays resume rpl_0aj52z0d400q7c1tn5xk3mw'],
  'replays cancel': ['posthorn replays cancel rpl_0aj52z0d400q7c1tn5xk3mw'],
  members: ['posthorn members'],
  'breakers list': ['posthorn breakers list --state open'],
  'breakers reset': ['posthorn breakers reset ep_0aj52yfkm006yg2qmpeajzq'],
  tail: ["posthorn tail --type 'order.*'", 'posthorn tail --kinds attempt.settled -o jsonl'],
  relay: [
    'posthorn relay --edge wss://edge.example --key-file ./relay-key --route github=http://127.0.0.1:8123/hook',
    'posthorn relay --config ./hub.json',
  ],
  listen: [
    `posthorn listen --forward http://localhost:3000/webhooks --types 'order.*'`,
    'posthorn listen --forward http://localhost:3000/webhooks --name dev  # goes on where it was, the next time',
  ],
  'keys create': ['posthorn keys create --role send --tenant acme --name shop'],
  'keys list': ['posthorn keys list --tenant acme'],
  'keys delete': ['posthorn keys delete key_0aj52yq7c04vb6zr2m9ye8k --yes'],
  sink: [
    'posthorn sink --port 4900 --script 503x3,200',
    'posthorn sink --delay 20ms --body --verify "$(posthorn endpoints secret ep_0aj52yfkm006yg2qmpeajzq)"',
  ],
  simulate: [
    'posthorn simulate --retry webhook --outage 20m --events 1000',
    `posthorn simulate --retry '{"preset":"webhook","maxAttempts":12}' --breaker off --concurrency 1000`,
    'posthorn simulate --outage 5m --events 5000 --rate 50/s --capacity 100/s -o json',
  ],
  migrate: ['posthorn migrate --dry-run'],
  import: [
    'posthorn import --from sqlite:./data/posthorn.db --database postgres://posthorn@db.example/posthorn --dry-run',
    'posthorn import --from sqlite:./data/posthorn.db  # to POSTHORN_DATABASE_URL',
  ],
  'config show': [
    'posthorn config show --server  # what the running server uses',
    'posthorn config show --config ./posthorn.json',
  ],
  completion: ['source <(posthorn completion bash)'],
}

/** Every command shows its examples below its options. */
export function addExamples(command: Command, path: readonly string[] = []): void {
  for (const below of command.commands) addExamples(below, [...path, below.name()])
  const lines = examples[path.join(' ')]
  if (lines !== undefined) command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`)
}
