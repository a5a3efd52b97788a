-- Hubs that may connect.
CREATE TABLE relays (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  -- JSON.
  settings TEXT NOT NULL,
  UNIQUE (tenant, name)
) STRICT, WITHOUT ROWID;
