-- What the endpoint's last failed try said: what waits behind a breaker has no error of its own.
ALTER TABLE endpoints ADD COLUMN last_error TEXT;
ALTER TABLE endpoints ADD COLUMN last_error_at INTEGER;

-- An open breaker knows how many failures in a row have opened it; of those that are open it was the threshold.
UPDATE endpoints
SET breaker = json_set(breaker, '$.failures', coalesce(json_extract(settings, '$.breaker.threshold'), 1))
WHERE breaker IS NOT NULL AND json_extract(breaker, '$.failures') IS NULL;

-- Deliveries that became dead letters, by the hour (since 1970): what the last day was like, also after a restart.
CREATE TABLE dead_letter_hours (
  hour INTEGER NOT NULL,
  endpoint_no INTEGER NOT NULL,
  reason TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (hour, endpoint_no, reason)
) STRICT, WITHOUT ROWID;

-- Of those that are kept: the last day.
INSERT INTO dead_letter_hours (hour, endpoint_no, reason, count)
SELECT settled_at / 3600000, endpoint_no, reason, count(*) FROM deliveries INDEXED BY deliveries_dead
WHERE status IN ('failed', 'dead_letter') AND reason IS NOT NULL
  AND settled_at >= (CAST(strftime('%s', 'now') AS INTEGER) - 90000) * 1000
GROUP BY 1, 2, 3;
