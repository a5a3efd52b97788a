-- Endpoints, sources, relays and API keys in one table, with versions and unique names.
CREATE TABLE registry (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  -- Counts the puts of this entry, from 1.
  version INTEGER NOT NULL,
  -- No two entries of a kind have the same name within a scope. NULL: it has no unique name.
  scope TEXT,
  name TEXT,
  -- JSON.
  settings TEXT NOT NULL,
  -- Encrypted JSON. NULL: this kind has none.
  secrets BLOB,
  PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX registry_names ON registry (kind, scope, name) WHERE name IS NOT NULL;

INSERT INTO registry (kind, id, version, scope, name, settings, secrets)
SELECT 'source', id, 1, '', name, settings, secrets FROM sources;
INSERT INTO registry (kind, id, version, scope, name, settings)
SELECT 'relay', id, 1, tenant, name, settings FROM relays;
INSERT INTO registry (kind, id, version, settings)
SELECT 'key', id, 1, settings FROM api_keys;
INSERT INTO registry (kind, id, version, settings, secrets)
SELECT 'endpoint', id, 1, settings, secrets FROM endpoints WHERE removed = 0;
-- Of two endpoints for one handler the older has the name.
UPDATE registry SET scope = first.tenant, name = first.handler
FROM (
  SELECT min(no) AS no, id, tenant, json_extract(settings, '$.handler') AS handler FROM endpoints
  WHERE removed = 0 AND json_extract(settings, '$.kind') = 'handler'
  GROUP BY tenant, json_extract(settings, '$.handler')
) AS first
WHERE registry.kind = 'endpoint' AND registry.id = first.id;

DROP TABLE sources;
DROP TABLE relays;
DROP TABLE api_keys;
-- What is left are the numbers that deliveries are kept under, and the conditions.
ALTER TABLE endpoints DROP COLUMN settings;
ALTER TABLE endpoints DROP COLUMN secrets;

-- Raised by every put and every removal.
CREATE TABLE registry_version (version INTEGER NOT NULL) STRICT;
INSERT INTO registry_version (version) VALUES (0);
