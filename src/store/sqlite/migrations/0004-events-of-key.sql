-- Was this order delivered? Only events that have a key are in it.
CREATE INDEX events_of_key ON events (key) WHERE key IS NOT NULL;
