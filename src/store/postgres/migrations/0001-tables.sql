-- Row keys of events and deliveries are the bits of their ids as uuid (row-keys.ts): they sort by age, and two processes
-- never make the same one. Instants are epoch milliseconds.

CREATE TABLE settings (
  name text PRIMARY KEY,
  value bytea NOT NULL
);

CREATE TABLE endpoints (
  no int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text NOT NULL UNIQUE,
  tenant text NOT NULL,
  -- The row stays for the deliveries that name it.
  removed boolean NOT NULL DEFAULT false,
  -- JSON.
  breaker text,
  held_until bigint,
  failing_since bigint,
  last_error text,
  last_error_at bigint
);

-- Endpoints, sources, relays and API keys, with versions and unique names.
CREATE TABLE registry (
  kind text NOT NULL,
  id text NOT NULL,
  -- Counts the puts of this entry, from 1.
  version int NOT NULL,
  -- No two entries of a kind have the same name within a scope. NULL: it has no unique name.
  scope text,
  name text,
  -- JSON.
  settings text NOT NULL,
  -- Encrypted JSON. NULL: this kind has none.
  secrets bytea,
  PRIMARY KEY (kind, id)
);
CREATE UNIQUE INDEX registry_names ON registry (kind, scope, name) WHERE name IS NOT NULL;

-- Raised by every put and every removal.
CREATE TABLE registry_version (version bigint NOT NULL);
INSERT INTO registry_version (version) VALUES (0);

CREATE TABLE events (
  id uuid PRIMARY KEY,
  received_at bigint NOT NULL,
  size int NOT NULL,
  data_offset int,
  tenant text NOT NULL,
  type text NOT NULL,
  key text,
  content_type text NOT NULL,
  -- JSON.
  headers text,
  -- How a source took it in: JSON with source, method, query and headers.
  request text,
  body bytea NOT NULL
);
-- Compressing bodies would cost more than all other work.
ALTER TABLE events ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX events_of_key ON events (key, id) WHERE key IS NOT NULL;

-- Deliveries that have not ended: as many rows as there is backlog.
CREATE TABLE live (
  id uuid PRIMARY KEY,
  event_id uuid NOT NULL,
  received_at bigint NOT NULL,
  -- pending: not before; NULL: behind another in its lane. With an owner: its lease ends.
  due_at bigint,
  -- The place in the lane, taken under the lock of its slot.
  position bigint,
  retry_after bigint,
  last_attempt_at bigint,
  replayed_at bigint,
  endpoint int NOT NULL,
  version int NOT NULL,
  attempts int NOT NULL DEFAULT 0,
  tries_in_budget int NOT NULL DEFAULT 0,
  -- Leases that ended without an outcome since the last one.
  interruptions int NOT NULL DEFAULT 0,
  -- The member that has it in hand: then it is processing.
  owner int,
  -- The replay that requeued it last, unless a person retried it since.
  replay int,
  -- Of its event's body.
  size int NOT NULL,
  lane text,
  last_error text
);
-- What can be claimed, per endpoint: nothing that is parked behind another or owned is ever scanned.
CREATE INDEX live_ready ON live (endpoint, due_at, id) WHERE owner IS NULL AND due_at IS NOT NULL;
CREATE INDEX live_owned ON live (due_at) WHERE owner IS NOT NULL;
CREATE INDEX live_lane ON live (endpoint, lane, position) WHERE lane IS NOT NULL;
-- A second head of a lane is impossible.
CREATE UNIQUE INDEX live_heads ON live (endpoint, lane) WHERE lane IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX live_age ON live (endpoint, received_at, id);
CREATE INDEX live_event ON live (event_id);

-- Deliveries that have ended.
CREATE TABLE ended (
  id uuid PRIMARY KEY,
  event_id uuid NOT NULL,
  received_at bigint NOT NULL,
  settled_at bigint NOT NULL,
  last_attempt_at bigint,
  replayed_at bigint,
  endpoint int NOT NULL,
  version int NOT NULL,
  attempts int NOT NULL,
  tries_in_budget int NOT NULL,
  replay int,
  size int NOT NULL,
  status text NOT NULL,
  -- NULL: delivered.
  reason text,
  lane text,
  last_error text
);
CREATE INDEX ended_event ON ended (event_id);
CREATE INDEX ended_endpoint ON ended (endpoint, id);
CREATE INDEX ended_dead ON ended (id) WHERE reason IS NOT NULL;
CREATE INDEX ended_dead_endpoint ON ended (endpoint, id) WHERE reason IS NOT NULL;
CREATE INDEX ended_replay ON ended (replay, id) WHERE replay IS NOT NULL;

CREATE TABLE attempts (
  delivery uuid NOT NULL,
  number int NOT NULL,
  started_at bigint NOT NULL,
  took_ms int NOT NULL,
  status_code int,
  outcome text NOT NULL,
  error text,
  response_headers text,
  response_body text,
  stack text,
  error_class text,
  dependency text,
  PRIMARY KEY (delivery, number)
);

CREATE TABLE idempotency_keys (
  -- A tenant, or a source.
  scope text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  event_id uuid NOT NULL,
  deliveries int NOT NULL,
  received_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (scope, key)
);

-- Where an event was read (an outbox row, a Kafka record), so that reading it again finds it. Goes with the event.
CREATE TABLE origins (
  scope text NOT NULL,
  id text NOT NULL,
  event_id uuid NOT NULL,
  deliveries int NOT NULL,
  PRIMARY KEY (scope, id)
);
CREATE INDEX origins_of_event ON origins (event_id);

CREATE TABLE replays (
  no int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text NOT NULL UNIQUE,
  tenant text,
  status text NOT NULL,
  -- JSON: selection, rate, note, by.
  settings text NOT NULL,
  matched bigint NOT NULL,
  requeued bigint NOT NULL,
  -- Outcomes of what it requeued. NULL: it was imported, and is older than this count.
  delivered bigint,
  failed_again bigint,
  skipped bigint NOT NULL,
  -- The row key up to which the job has come, and the last one that it may touch.
  done_id uuid NOT NULL,
  last_id uuid NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  ended_at bigint,
  settled_at bigint
);

-- Deliveries that became dead letters, by the hour (since 1970). Each write stream counts in rows of its own, so that
-- none waits for another.
CREATE TABLE dead_letter_hours (
  hour int NOT NULL,
  endpoint int NOT NULL,
  reason text NOT NULL,
  stream int NOT NULL,
  count int NOT NULL,
  PRIMARY KEY (hour, endpoint, reason, stream)
);

-- Places in lanes. Cache 1: they are given in the order of their commits under the lock of a slot.
CREATE SEQUENCE positions CACHE 1;

-- What changes the live rows of a lane locks the lane's slot first. The rows never change.
CREATE TABLE lane_slots (slot int PRIMARY KEY);
INSERT INTO lane_slots (slot) SELECT generate_series(0, 65535);

-- One row for every write stream of a process: whether a write was kept whose answer got lost, and what the answer was.
CREATE TABLE marks (
  stream int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  seq bigint NOT NULL DEFAULT 0,
  member int NOT NULL,
  answer text
) WITH (fillfactor = 10);

-- The processes that share this database.
CREATE TABLE members (
  no int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text NOT NULL UNIQUE,
  host text NOT NULL,
  pid int NOT NULL,
  version text NOT NULL,
  -- The endpoints whose handlers run there.
  handlers text[] NOT NULL DEFAULT '{}',
  -- Whether its last beat said that it makes attempts.
  working boolean NOT NULL DEFAULT false,
  joined_at bigint NOT NULL,
  beat_at bigint NOT NULL,
  -- Since when its beats have come in time without a break.
  beating_since bigint NOT NULL,
  lease_ends_at bigint NOT NULL,
  -- Others may take what it owns.
  fenced boolean NOT NULL DEFAULT false,
  -- And they have.
  swept boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);

-- Who does what only one should.
CREATE TABLE leader (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  member int NOT NULL,
  -- As of the member: it is decided under this row's lock.
  working boolean NOT NULL DEFAULT false,
  lease_ends_at bigint NOT NULL
);
INSERT INTO leader (member, lease_ends_at) VALUES (0, 0);
