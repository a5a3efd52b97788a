-- What a process writes. Each call is one function, which is its own transaction: no client holds a lock while it thinks.
-- The version in a name lets old and new processes run side by side. Plans are made for tables that may have been empty
-- then: rows of live are found by key or ctid and never by a join, and whole scans are ruled out. EXISTS may become a
-- join that reads everything; (SELECT … LIMIT 1) IS NULL does not. What is ruled out counts as so dear that Postgres
-- would compile every plan, which takes 50 ms: jit is off.

-- The first statement of every write. A write whose answer got lost is found out by whoever moves the mark next.
CREATE FUNCTION mark_v1(of_stream int, to_seq bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'Posthorn needs the isolation level read committed' USING ERRCODE = 'PH002';
  END IF;
  UPDATE marks SET seq = to_seq, answer = NULL WHERE stream = of_stream AND seq = to_seq - 1;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the write stream % is past %', of_stream, to_seq USING ERRCODE = 'PH001';
  END IF;
  -- Here and not in SET: what a function sets for itself is over before the commit.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END $$;

-- Kept for whoever asks again, if there is anything to say.
CREATE FUNCTION answered_v1(of_stream int, given text) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF given IS NOT NULL THEN
    UPDATE marks SET answer = given WHERE stream = of_stream;
  END IF;
  RETURN given;
END $$;

-- Locks the slots of lanes, in their order. A statement of its own: what comes after it sees what the last holder did.
CREATE FUNCTION lock_slots_v1(slots int[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
BEGIN
  PERFORM 1 FROM lane_slots WHERE slot = ANY (slots) ORDER BY slot FOR NO KEY UPDATE;
END $$;

-- Which arrivals are repeats of earlier ones, by origin or by key. Notes what is new. `skipped`: places of events that are
-- not kept; `said`: the repeats and the conflicts.
CREATE FUNCTION recognise_v1(
  ids uuid[], calls int[], received bigint[], counts int[],
  o_events int[], o_scopes text[], o_ids text[],
  k_events int[], k_scopes text[], k_keys text[], k_prints text[], k_ends bigint[],
  OUT skipped int[], OUT said jsonb
) LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  read_before int[] := '{}';
  repeats jsonb;
  conflicts int[];
  void uuid[];
BEGIN
  IF o_events IS NOT NULL THEN
    INSERT INTO origins (scope, id, event_id, deliveries)
      SELECT DISTINCT ON (u.scope, u.id) u.scope, u.id, ids[u.event], counts[u.event]
      FROM unnest(o_scopes, o_ids, o_events) AS u (scope, id, event) ORDER BY u.scope, u.id, u.event
    ON CONFLICT (scope, id) DO NOTHING;
    SELECT array_agg(u.event), jsonb_agg(jsonb_build_array(u.event, k.event_id, k.deliveries)) INTO read_before, repeats
      FROM unnest(o_scopes, o_ids, o_events) AS u (scope, id, event)
      CROSS JOIN LATERAL (SELECT * FROM origins o WHERE o.scope = u.scope AND o.id = u.id LIMIT 1) k
      WHERE k.event_id <> ids[u.event];
    read_before := coalesce(read_before, '{}');
  END IF;
  IF k_events IS NOT NULL THEN
    INSERT INTO idempotency_keys AS known (scope, key, fingerprint, event_id, deliveries, received_at, expires_at)
      SELECT DISTINCT ON (u.scope, u.key) u.scope, u.key, u.print, ids[u.event], counts[u.event], received[u.event], u.ends
      FROM unnest(k_scopes, k_keys, k_prints, k_ends, k_events) AS u (scope, key, print, ends, event)
      WHERE u.event <> ALL (read_before) ORDER BY u.scope, u.key, u.event
    ON CONFLICT (scope, key) DO UPDATE SET fingerprint = excluded.fingerprint, event_id = excluded.event_id,
      deliveries = excluded.deliveries, received_at = excluded.received_at, expires_at = excluded.expires_at
      WHERE known.expires_at <= excluded.received_at;
    SELECT coalesce(repeats, '[]') || coalesce(jsonb_agg(jsonb_build_array(u.event, k.event_id, k.deliveries))
        FILTER (WHERE k.fingerprint = u.print), '[]'),
        array_agg(u.event) FILTER (WHERE k.fingerprint <> u.print)
      INTO repeats, conflicts
      FROM unnest(k_scopes, k_keys, k_prints, k_events) AS u (scope, key, print, event)
      CROSS JOIN LATERAL (SELECT * FROM idempotency_keys i WHERE i.scope = u.scope AND i.key = u.key LIMIT 1) k
      WHERE u.event <> ALL (read_before) AND k.event_id <> ids[u.event];
    repeats := nullif(repeats, '[]');
  END IF;
  -- Of a call with a conflict nothing is kept.
  IF conflicts IS NOT NULL THEN
    SELECT array_agg(ids[c.event]) INTO void FROM unnest(calls) WITH ORDINALITY AS c (call, event)
      WHERE c.call IN (SELECT calls[x] FROM unnest(conflicts) AS x);
    IF k_events IS NOT NULL THEN
      DELETE FROM idempotency_keys i USING unnest(k_scopes, k_keys) AS u (scope, key)
        WHERE i.scope = u.scope AND i.key = u.key AND i.event_id = ANY (void);
    END IF;
    IF o_events IS NOT NULL THEN
      DELETE FROM origins o USING unnest(o_scopes, o_ids) AS u (scope, id)
        WHERE o.scope = u.scope AND o.id = u.id AND o.event_id = ANY (void);
    END IF;
  END IF;
  IF repeats IS NULL AND conflicts IS NULL THEN
    RETURN;
  END IF;
  SELECT array_agg(c.event) INTO skipped FROM unnest(ids) WITH ORDINALITY AS c (id, event)
    WHERE c.id = ANY (void) OR c.event IN (SELECT (x ->> 0)::int FROM jsonb_array_elements(repeats) AS x);
  -- The origin of a repeated key stands for the first event, as long as that is kept.
  IF o_events IS NOT NULL AND repeats IS NOT NULL THEN
    UPDATE origins o SET event_id = r.first, deliveries = r.deliveries
      FROM (SELECT u.scope, u.id, ids[u.event] AS mine, (x ->> 1)::uuid AS first, (x ->> 2)::int AS deliveries
        FROM unnest(o_scopes, o_ids, o_events) AS u (scope, id, event)
        JOIN jsonb_array_elements(repeats) AS x ON (x ->> 0)::int = u.event) r
      WHERE o.scope = r.scope AND o.id = r.id AND o.event_id = r.mine
        AND (SELECT 1 FROM events e WHERE e.id = r.first LIMIT 1) IS NOT NULL;
    DELETE FROM origins o USING unnest(o_scopes, o_ids, o_events) AS u (scope, id, event)
      WHERE o.scope = u.scope AND o.id = u.id AND o.event_id = ids[u.event] AND u.event = ANY (skipped);
  END IF;
  said := jsonb_strip_nulls(jsonb_build_object('repeats', repeats, 'conflicts', to_jsonb(conflicts)));
END $$;

-- Deliveries that are ended when they come: their endpoint is gone, or their tries were made elsewhere.
CREATE FUNCTION append_ended_v1(of_stream int, gone jsonb, ids uuid[], sizes int[], skipped int[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO ended (id, event_id, received_at, settled_at, last_attempt_at, replayed_at, endpoint, version, attempts,
      tries_in_budget, size, status, reason, lane, last_error)
    SELECT g.id, ids[g.event], g.received_at, g.settled_at, g.last_attempt_at, g.replayed_at, g.endpoint, g.version,
      g.attempts, g.tries_in_budget, sizes[g.event], g.status, g.reason, g.lane, g.last_error
    FROM jsonb_to_recordset(gone) AS g (id uuid, event int, received_at bigint, settled_at bigint,
      last_attempt_at bigint, replayed_at bigint, endpoint int, version int, attempts int, tries_in_budget int,
      status text, reason text, lane text, last_error text)
    WHERE skipped IS NULL OR g.event <> ALL (skipped);
  INSERT INTO attempts
    SELECT a.* FROM jsonb_to_recordset(gone) AS g (event int, attempt jsonb)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::attempts, g.attempt) AS a
    WHERE g.attempt IS NOT NULL AND (skipped IS NULL OR g.event <> ALL (skipped));
  INSERT INTO dead_letter_hours AS known (hour, endpoint, reason, stream, count)
    SELECT g.settled_at / 3600000, g.endpoint, g.reason, of_stream, count(*)
    FROM jsonb_to_recordset(gone) AS g (event int, settled_at bigint, endpoint int, reason text)
    WHERE skipped IS NULL OR g.event <> ALL (skipped) GROUP BY 1, 2, 3
  ON CONFLICT (hour, endpoint, reason, stream) DO UPDATE SET count = known.count + excluded.count;
END $$;

-- Keeps events and their deliveries. Answers what is not as it was wished for: deliveries that wait behind others although
-- they were to be claimed (`behind`), repeats and conflicts.
CREATE FUNCTION append_v1(
  of_stream int, to_seq bigint, member int, slots int[],
  ids uuid[], calls int[], tenants text[], types text[], keys text[], received bigint[], content_types text[],
  headers text[], data_offsets int[], requests text[], sizes int[], bodies bytea[], counts int[],
  d_ids uuid[], d_events int[], d_endpoints int[], d_lanes text[], d_dues bigint[], d_leases bigint[],
  gone jsonb,
  o_events int[], o_scopes text[], o_ids text[],
  k_events int[], k_scopes text[], k_keys text[], k_prints text[], k_ends bigint[]
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  skipped int[];
  said jsonb;
  behind int[];
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  IF o_events IS NOT NULL OR k_events IS NOT NULL THEN
    SELECT r.skipped, r.said INTO skipped, said FROM recognise_v1(ids, calls, received, counts, o_events, o_scopes, o_ids,
      k_events, k_scopes, k_keys, k_prints, k_ends) AS r;
  END IF;
  IF slots IS NOT NULL THEN
    PERFORM lock_slots_v1(slots);
  END IF;
  INSERT INTO events (id, received_at, size, data_offset, tenant, type, key, content_type, headers, request, body)
    SELECT u.id, u.received_at, u.size, u.data_offset, u.tenant, u.type, u.key, u.content_type, u.headers, u.request, u.body
    FROM unnest(ids, received, sizes, data_offsets, tenants, types, keys, content_types, headers, requests, bodies)
      WITH ORDINALITY AS u (id, received_at, size, data_offset, tenant, type, key, content_type, headers, request, body, event)
    WHERE skipped IS NULL OR u.event <> ALL (skipped);
  IF slots IS NULL THEN
    INSERT INTO live (id, event_id, received_at, due_at, endpoint, version, owner, size)
      SELECT u.id, ids[u.event], received[u.event], coalesce(u.lease, u.due), u.endpoint, 1,
        CASE WHEN u.lease IS NOT NULL THEN member END, sizes[u.event]
      FROM unnest(d_ids, d_events, d_endpoints, d_dues, d_leases) AS u (id, event, endpoint, due, lease)
      WHERE skipped IS NULL OR u.event <> ALL (skipped);
  ELSE
    WITH wished AS (
      SELECT u.*, u.lane IS NULL OR (row_number() OVER (PARTITION BY u.endpoint, u.lane ORDER BY u.place) = 1
        AND (SELECT 1 FROM live l WHERE l.endpoint = u.endpoint AND l.lane = u.lane LIMIT 1) IS NULL) AS is_head
      FROM unnest(d_ids, d_events, d_endpoints, d_lanes, d_dues, d_leases)
        WITH ORDINALITY AS u (id, event, endpoint, lane, due, lease, place)
      WHERE skipped IS NULL OR u.event <> ALL (skipped)
      ORDER BY u.place
    ), put AS (
      INSERT INTO live (id, event_id, received_at, due_at, position, endpoint, version, owner, size, lane)
        SELECT w.id, ids[w.event], received[w.event], CASE WHEN w.is_head THEN coalesce(w.lease, w.due) END,
          CASE WHEN w.lane IS NOT NULL THEN nextval('positions') END, w.endpoint, 1,
          CASE WHEN w.is_head AND w.lease IS NOT NULL THEN member END, sizes[w.event], w.lane
        FROM wished w ORDER BY w.place
    )
    SELECT array_agg(w.place) INTO behind FROM wished w WHERE w.lease IS NOT NULL AND NOT w.is_head;
  END IF;
  IF gone IS NOT NULL THEN
    PERFORM append_ended_v1(of_stream, gone, ids, sizes, skipped);
  END IF;
  IF behind IS NOT NULL THEN
    said := coalesce(said, '{}') || jsonb_build_object('behind', to_jsonb(behind));
  END IF;
  RETURN answered_v1(of_stream, said::text);
END $$;
