-- For people with psql: ids as they are known outside, times as UTC text of fixed width, so that they compare as text.

CREATE FUNCTION id_text(prefix text, row_key uuid) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT prefix || '_' || string_agg(
    substr('0123456789abcdefghjkmnpqrstvwxyz', substring(bits FROM digit * 5 + 1 FOR 5)::int + 1, 1), '' ORDER BY digit)
  FROM (SELECT ('x' || replace(row_key::text, '-', ''))::bit(128) AS bits) AS key CROSS JOIN generate_series(0, 22) AS digit
$$;

-- The row key of an id: WHERE row_key = posthorn.row_key_of('dlv_…') finds its row at once.
CREATE FUNCTION row_key_of(id text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT replace(lpad(to_hex(left_half), 16, '0') || lpad(to_hex(right_half), 16, '0'), '-', '')::uuid
  FROM (SELECT substring(bits FROM 1 FOR 64)::bit(64)::bigint AS left_half,
      substring(bits FROM 65 FOR 64)::bit(64)::bigint AS right_half
    FROM (SELECT (string_agg((strpos('0123456789abcdefghjkmnpqrstvwxyz',
        substr(split_part(id, '_', 2), digit, 1)) - 1)::bit(5)::text, '' ORDER BY digit) || '0000000000000')::bit(128) AS bits
      FROM generate_series(1, 23) AS digit) AS joined) AS halves
$$;

CREATE FUNCTION instant_text(ms bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT to_char(to_timestamp(ms / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

CREATE VIEW delivery_status AS
SELECT id_text('dlv', d.id) AS id, id_text('evt', e.id) AS event_id, p.id AS endpoint_id, e.type, e.tenant, e.key,
  d.status, d.attempts, instant_text(d.retry_after) AS retry_after, d.last_error, d.reason,
  instant_text(d.received_at) AS received_at, instant_text(d.last_attempt_at) AS last_attempt_at,
  CASE WHEN d.status = 'delivered' THEN instant_text(d.settled_at) END AS delivered_at,
  CASE WHEN d.status <> 'delivered' THEN instant_text(d.settled_at) END AS settled_at,
  d.id AS row_key
FROM (
  SELECT id, event_id, endpoint, CASE WHEN owner IS NULL THEN 'pending' ELSE 'processing' END AS status, attempts,
    retry_after, last_error, NULL::text AS reason, received_at, last_attempt_at, NULL::bigint AS settled_at
  FROM live
  UNION ALL
  SELECT id, event_id, endpoint, status, attempts, NULL, last_error, reason, received_at, last_attempt_at, settled_at
  FROM ended
) d
JOIN events e ON e.id = d.event_id
JOIN endpoints p ON p.no = d.endpoint;

-- With the class of the last error, where an attempt had one.
CREATE VIEW dead_letters AS
SELECT s.*, (SELECT a.error_class FROM attempts a WHERE a.delivery = s.row_key ORDER BY a.number DESC LIMIT 1) AS error_class
FROM delivery_status s WHERE s.status IN ('failed', 'dead_letter');
