-- Deletes deliveries that were kept long enough, if they are as they were read, and those of the events of which nothing is
-- left. Answers how many of both.
CREATE FUNCTION prune_events_v1(of_stream int, to_seq bigint, d_ids uuid[], d_versions int[], e_ids uuid[]) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  deliveries int := 0;
  gone_events uuid[];
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  WITH gone AS (
    DELETE FROM ended e WHERE e.id = ANY (d_ids) AND e.version = d_versions[array_position(d_ids, e.id)] RETURNING e.id
  ), logs AS (
    DELETE FROM attempts a WHERE a.delivery = ANY (ARRAY(SELECT g.id FROM gone g))
  )
  SELECT count(*) INTO deliveries FROM gone;
  -- Locked first: whoever makes a delivery of one waits, and then finds it gone.
  PERFORM 1 FROM events e WHERE e.id = ANY (e_ids) ORDER BY e.id FOR UPDATE;
  WITH gone AS (
    DELETE FROM events e WHERE e.id = ANY (e_ids)
      AND (SELECT 1 FROM live l WHERE l.event_id = e.id LIMIT 1) IS NULL
      AND (SELECT 1 FROM ended d WHERE d.event_id = e.id LIMIT 1) IS NULL
    RETURNING e.id
  )
  SELECT array_agg(g.id) INTO gone_events FROM gone g;
  DELETE FROM origins o WHERE o.event_id = ANY (gone_events);
  RETURN answered_v1(of_stream, jsonb_build_array(deliveries, coalesce(cardinality(gone_events), 0))::text);
END $$;

CREATE FUNCTION prune_keys_v1(of_stream int, to_seq bigint, scopes text[], names text[], ends bigint[]) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  deleted int;
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  DELETE FROM idempotency_keys k WHERE k.ctid = ANY (ARRAY(
    SELECT found.tid FROM unnest(scopes, names, ends) AS u (scope, key, expires_at)
    CROSS JOIN LATERAL (SELECT x.ctid AS tid FROM idempotency_keys x
      WHERE x.scope = u.scope AND x.key = u.key AND x.expires_at = u.expires_at LIMIT 1 FOR UPDATE) AS found));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN answered_v1(of_stream, deleted::text);
END $$;

CREATE FUNCTION prune_replays_v1(of_stream int, to_seq bigint, before bigint, most int) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  deleted int;
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  DELETE FROM replays WHERE no IN (
    SELECT r.no FROM replays r WHERE coalesce(r.settled_at, r.ended_at) < before
      AND coalesce(r.requeued - r.delivered - r.failed_again, 0) = 0 ORDER BY r.no LIMIT most);
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN answered_v1(of_stream, deleted::text);
END $$;

CREATE FUNCTION prune_hours_v1(of_stream int, to_seq bigint, before int, most int) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  deleted int;
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  DELETE FROM dead_letter_hours WHERE (hour, endpoint, reason, stream) IN (
    SELECT h.hour, h.endpoint, h.reason, h.stream FROM dead_letter_hours h WHERE h.hour < before
      ORDER BY h.hour LIMIT most);
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN answered_v1(of_stream, deleted::text);
END $$;
