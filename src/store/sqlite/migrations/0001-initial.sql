-- Row keys of events and deliveries are the numbers inside their ids, so that an id is found without an index.

CREATE TABLE settings (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE endpoints (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  settings TEXT NOT NULL,
  secrets BLOB NOT NULL,
  breaker TEXT,
  held_until INTEGER,
  failing_since INTEGER,
  removed INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE events (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  tenant TEXT NOT NULL,
  type TEXT NOT NULL,
  key TEXT,
  received_at INTEGER NOT NULL,
  content_type TEXT NOT NULL,
  headers TEXT,
  data_offset INTEGER,
  -- How a source took it in: JSON with source, method, query and headers.
  request BLOB,
  size INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE deliveries (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  event_no INTEGER NOT NULL,
  endpoint_no INTEGER NOT NULL,
  lane TEXT,
  -- The place in the lane: the delivery's number, until a replay sends it to the tail.
  position INTEGER NOT NULL,
  status TEXT NOT NULL,
  version INTEGER NOT NULL,
  -- pending: not before; NULL: behind another in its lane. processing: the lease ends.
  due_at INTEGER,
  received_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  tries_in_budget INTEGER NOT NULL DEFAULT 0,
  -- Leases that ended without an outcome since the last one.
  interruptions INTEGER NOT NULL DEFAULT 0,
  retry_after INTEGER,
  last_attempt_at INTEGER,
  replayed_at INTEGER,
  settled_at INTEGER,
  reason TEXT,
  last_error TEXT
) STRICT;

-- What can be claimed, per endpoint: nothing that is parked behind another, leased or settled is ever scanned.
CREATE INDEX deliveries_ready ON deliveries (endpoint_no, due_at, position)
  WHERE status = 'pending' AND due_at IS NOT NULL;
CREATE INDEX deliveries_leased ON deliveries (due_at) WHERE status = 'processing';
CREATE INDEX deliveries_lane ON deliveries (endpoint_no, lane, position)
  WHERE lane IS NOT NULL AND status IN ('pending', 'processing');
CREATE INDEX deliveries_of_event ON deliveries (event_no);
-- Row keys are the last column of every index: where all columns before them are fixed, an index leads through its rows
-- in their order. What waits and what is leased comes in the order of time instead.
CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint_no);
-- What waits, oldest first: how much there is, and what is too old.
CREATE INDEX deliveries_pending ON deliveries (endpoint_no, received_at) WHERE status = 'pending';
CREATE INDEX deliveries_dead ON deliveries (status) WHERE status IN ('failed', 'dead_letter');
CREATE INDEX deliveries_dead_of_endpoint ON deliveries (endpoint_no, status)
  WHERE status IN ('failed', 'dead_letter');

CREATE TABLE attempts (
  delivery_no INTEGER NOT NULL,
  number INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  took_ms INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  status_code INTEGER,
  error TEXT,
  response_headers TEXT,
  response_body TEXT,
  stack TEXT,
  PRIMARY KEY (delivery_no, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
  -- A tenant, or a source.
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  event_id TEXT NOT NULL,
  deliveries INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE sources (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  settings TEXT NOT NULL,
  secrets BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  settings TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE replays (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT,
  status TEXT NOT NULL,
  -- JSON: selection, rate, note, by.
  settings TEXT NOT NULL,
  matched INTEGER NOT NULL,
  replayed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  -- The row key up to which the job has come, and the last one that it may touch.
  done_no INTEGER NOT NULL DEFAULT 0,
  last_no INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;

-- For people with a shell: times are UTC text of fixed width, so that they compare as text.
CREATE VIEW delivery_status AS
SELECT d.id, e.id AS event_id, p.id AS endpoint_id, e.type, e.tenant, e.key, d.status, d.attempts,
  strftime('%Y-%m-%dT%H:%M:%fZ', d.retry_after / 1000.0, 'unixepoch') AS retry_after,
  d.last_error, d.reason,
  strftime('%Y-%m-%dT%H:%M:%fZ', d.received_at / 1000.0, 'unixepoch') AS received_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', d.last_attempt_at / 1000.0, 'unixepoch') AS last_attempt_at,
  CASE WHEN d.status = 'delivered' THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.settled_at / 1000.0, 'unixepoch') END
    AS delivered_at,
  CASE WHEN d.status <> 'delivered' THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.settled_at / 1000.0, 'unixepoch') END
    AS settled_at
FROM deliveries d
JOIN events e ON e.no = d.event_no
JOIN endpoints p ON p.no = d.endpoint_no;

CREATE VIEW dead_letters AS
SELECT * FROM delivery_status WHERE status IN ('failed', 'dead_letter');
