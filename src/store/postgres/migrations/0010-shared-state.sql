-- What members agree on while they work (src/shared-state). After a crash of the server it may be gone.
CREATE UNLOGGED TABLE shared_state (
  key text PRIMARY KEY,
  value text NOT NULL,
  ends_at timestamptz NOT NULL
);
CREATE INDEX shared_state_ends ON shared_state (ends_at);

CREATE FUNCTION read_state_v1(keys text[]) RETURNS text[] LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
  SELECT array_agg(s.value ORDER BY k.ordinal)
    FROM unnest(keys) WITH ORDINALITY AS k (key, ordinal)
    LEFT JOIN shared_state s ON s.key = k.key AND s.ends_at > clock_timestamp()
$$;

-- One answer for each key: NULL where the value was swapped, else '=' and what is there, or '-' if nothing is.
-- Keys are locked by buckets, in their order: two calls never wait for each other in a circle. A lock per key would use up
-- the server's memory for locks, and sessions of others would fail.
CREATE FUNCTION swap_state_v1(keys text[], froms text[], tos text[], ttls bigint[]) RETURNS text[]
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  answers text[] := '{}';
  found_value text;
  bucket bigint;
BEGIN
  FOR bucket IN SELECT DISTINCT hashtextextended(k, 0) & 63 AS b FROM unnest(keys) AS k ORDER BY b LOOP
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || ' shared_state ' || bucket, 0));
  END LOOP;
  FOR at IN 1 .. cardinality(keys) LOOP
    SELECT s.value INTO found_value FROM shared_state s WHERE s.key = keys[at] AND s.ends_at > clock_timestamp();
    IF found_value IS DISTINCT FROM froms[at] THEN
      answers := array_append(answers, coalesce('=' || found_value, '-'));
      CONTINUE;
    END IF;
    IF tos[at] IS NULL THEN
      DELETE FROM shared_state s WHERE s.key = keys[at];
    ELSE
      INSERT INTO shared_state (key, value, ends_at)
        VALUES (keys[at], tos[at], clock_timestamp() + make_interval(secs => ttls[at] / 1000.0))
      ON CONFLICT (key) DO UPDATE SET value = excluded.value, ends_at = excluded.ends_at;
    END IF;
    answers := array_append(answers, NULL);
  END LOOP;
  RETURN answers;
END $$;

CREATE FUNCTION prune_state_v1(row_max int) RETURNS int LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  pruned int;
BEGIN
  DELETE FROM shared_state s WHERE s.ctid = ANY (ARRAY(
    SELECT e.ctid FROM shared_state e WHERE e.ends_at < clock_timestamp() LIMIT row_max FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS pruned = ROW_COUNT;
  RETURN pruned;
END $$;
