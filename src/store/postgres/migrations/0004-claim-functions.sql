-- Takes due work of one endpoint, longest due first, or named deliveries whether due or not: what nobody owns, and what was
-- owned under a lease that has ended. The last row has no id: it says what was too large, and when the next is due. While
-- somebody holds a snapshot, what has passed stays in the indexes: if a claim had to go through much of it, it also says
-- from where on the next one may begin, in what is ready and in what is owned. The rows come in any order: the last one has
-- the ids in theirs, because to sort them here costs more.
CREATE FUNCTION claim_v1(
  member int, of_endpoint int, names uuid[], at bigint, lease bigint, most int, bytes_max bigint, alone_from int, large int,
  ready_floor bigint, owned_floor bigint
) RETURNS TABLE (too_large int, next_due bigint, ready_from bigint, owned_from bigint, ids uuid[],
  id uuid, lane text, received_at bigint, version int, attempts int, tries_in_budget int, retry_after bigint,
  last_error text, last_attempt_at bigint, replayed_at bigint, endpoint int, due_at bigint, interruptions int,
  event_id uuid, tenant text, type text, key text, event_received_at bigint, content_type text, headers text,
  data_offset int, request text, size int, body bytea)
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
  candidate record;
  taken tid[] := '{}';
  in_order uuid[] := '{}';
  lapsed uuid[] := '{}';
  bytes bigint := 0;
  first_ready bigint;
  first_owned bigint;
  too_big int;
  due bigint;
  suspects int;
  all_fit boolean := false;
  has_read_much boolean;
  is_full boolean := false;
BEGIN
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  -- Nearly always all that is ready fits, and no lease has ended: then the rows need not be looked at one by one.
  IF names IS NULL AND (SELECT 1 FROM live d WHERE d.owner IS NOT NULL AND d.due_at >= owned_floor AND d.due_at <= at
      AND d.endpoint = of_endpoint LIMIT 1) IS NULL THEN
    SELECT array_agg(b.tid), array_agg(b.id), sum(b.size), max(b.interruptions), min(b.due_at)
      INTO taken, in_order, bytes, suspects, first_ready
      FROM (SELECT d.ctid AS tid, d.id, d.size, d.interruptions, d.due_at FROM live d
        WHERE d.endpoint = of_endpoint AND d.owner IS NULL AND d.due_at IS NOT NULL AND d.due_at >= ready_floor
          AND d.due_at <= at
        ORDER BY d.due_at, d.id LIMIT most FOR NO KEY UPDATE SKIP LOCKED) AS b;
    all_fit := coalesce(bytes, 0) <= bytes_max AND NOT coalesce(suspects >= alone_from, false);
    IF NOT all_fit OR taken IS NULL THEN
      taken := '{}';
      in_order := '{}';
      bytes := 0;
    END IF;
  END IF;
  IF NOT all_fit THEN
    FOR candidate IN
      SELECT * FROM (SELECT d.ctid AS tid, d.id, d.size, d.interruptions, true AS has_lapsed, d.due_at AS was_due FROM live d
        WHERE names IS NULL AND d.owner IS NOT NULL AND d.due_at >= owned_floor AND d.due_at <= at AND d.endpoint = of_endpoint
        ORDER BY d.due_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED) AS a
      UNION ALL
      SELECT * FROM (SELECT d.ctid, d.id, d.size, d.interruptions, false, d.due_at FROM live d
        WHERE names IS NULL AND d.endpoint = of_endpoint AND d.owner IS NULL AND d.due_at IS NOT NULL AND d.due_at >= ready_floor
          AND d.due_at <= at
        ORDER BY d.due_at, d.id LIMIT most FOR NO KEY UPDATE SKIP LOCKED) AS b
      UNION ALL
      -- Locked by id, as everybody does: who names the same in another order would wait for the other for ever.
      (SELECT * FROM (SELECT d.ctid, d.id, d.size, d.interruptions, d.owner IS NOT NULL, d.due_at FROM live d
        WHERE names IS NOT NULL AND d.id = ANY (names) AND d.due_at IS NOT NULL AND (d.owner IS NULL OR d.due_at <= at)
        ORDER BY d.id FOR NO KEY UPDATE) AS c ORDER BY array_position(names, c.id))
    LOOP
      IF candidate.has_lapsed THEN
        first_owned := coalesce(first_owned, candidate.was_due);
      ELSE
        first_ready := coalesce(first_ready, candidate.was_due);
      END IF;
      EXIT WHEN is_full OR cardinality(taken) >= most;
      IF bytes + candidate.size > bytes_max THEN
        IF cardinality(taken) = 0 THEN
          too_big := candidate.size;
        END IF;
        EXIT;
      END IF;
      -- It may have ended a process before: whatever is taken with it would be suspected too.
      IF candidate.interruptions + candidate.has_lapsed::int >= alone_from THEN
        EXIT WHEN cardinality(taken) > 0;
        is_full := true;
      END IF;
      taken := taken || candidate.tid;
      in_order := in_order || candidate.id;
      bytes := bytes + candidate.size;
      IF candidate.has_lapsed THEN
        lapsed := lapsed || candidate.id;
      END IF;
    END LOOP;
  END IF;
  IF cardinality(taken) > 0 THEN
    RETURN QUERY
      WITH mine AS (
        UPDATE live l SET owner = member, version = l.version + 1, due_at = lease,
          interruptions = l.interruptions + (l.id = ANY (lapsed))::int
        WHERE l.ctid = ANY (taken)
        RETURNING l.*
      )
      SELECT NULL::int, NULL::bigint, NULL::bigint, NULL::bigint, NULL::uuid[], m.id, m.lane, m.received_at, m.version, m.attempts,
        m.tries_in_budget, m.retry_after, m.last_error, m.last_attempt_at, m.replayed_at, m.endpoint, m.due_at, m.interruptions, e.id,
        e.tenant, e.type, e.key, e.received_at, e.content_type, e.headers, e.data_offset, e.request, e.size,
        CASE WHEN e.size < large THEN e.body END
      FROM mine m CROSS JOIN LATERAL (SELECT * FROM events v WHERE v.id = m.event_id LIMIT 1) e;
  END IF;
  SELECT d.due_at INTO due FROM live d WHERE names IS NULL AND d.endpoint = of_endpoint AND d.owner IS NULL
    AND d.due_at IS NOT NULL AND d.due_at >= ready_floor ORDER BY d.due_at LIMIT 1;
  has_read_much := names IS NULL AND pg_stat_get_xact_tuples_returned(to_regclass('live_ready'))
    + pg_stat_get_xact_tuples_returned(to_regclass('live_owned')) > 1000 + 4 * most;
  RETURN QUERY
    SELECT too_big, due, CASE WHEN has_read_much THEN least(first_ready, due, at) END,
      CASE WHEN has_read_much THEN least(first_owned, at) END, in_order, NULL::uuid, NULL::text, NULL::bigint, NULL::int, NULL::int,
      NULL::int, NULL::bigint, NULL::text, NULL::bigint, NULL::bigint, NULL::int, NULL::bigint, NULL::int, NULL::uuid,
      NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::text, NULL::text, NULL::int, NULL::text, NULL::int,
      NULL::bytea;
END $$;

-- What a member has in hand, with the events: as claim_v1 gives it.
CREATE FUNCTION in_hand_v1(member int, ids uuid[], large int)
RETURNS TABLE (
  id uuid, lane text, received_at bigint, version int, attempts int, tries_in_budget int, retry_after bigint,
  last_error text, last_attempt_at bigint, replayed_at bigint, endpoint int, due_at bigint, interruptions int,
  event_id uuid, tenant text, type text, key text, event_received_at bigint, content_type text, headers text,
  data_offset int, request text, size int, body bytea)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT m.id, m.lane, m.received_at, m.version, m.attempts, m.tries_in_budget, m.retry_after, m.last_error,
      m.last_attempt_at, m.replayed_at, m.endpoint, m.due_at, m.interruptions, e.id, e.tenant, e.type, e.key,
      e.received_at, e.content_type, e.headers, e.data_offset, e.request, e.size,
      CASE WHEN e.size < large THEN e.body END
    FROM live m CROSS JOIN LATERAL (SELECT * FROM events v WHERE v.id = m.event_id LIMIT 1) e
    WHERE m.id = ANY (ids) AND m.owner = member;
END $$;

-- Moves the end of leases and nothing else: the version stays, so that the outcome in hand still fits.
CREATE FUNCTION renew_v1(of_stream int, to_seq bigint, member int, ids uuid[], versions int[], leases bigint[]) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  UPDATE live l SET due_at = leases[array_position(ids, l.id)]
    WHERE l.id = ANY (ids) AND l.version = versions[array_position(ids, l.id)] AND l.owner = member;
  RETURN NULL;
END $$;

-- For every endpoint with work that nobody owns, or with leases that have ended: when the first is due. And every removed
-- endpoint at which anything waits. Goes from endpoint to endpoint, however much waits at each.
CREATE FUNCTION backlog_v1(at bigint) RETURNS TABLE (endpoint int, due_at bigint)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off
SET enable_sort = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    WITH RECURSIVE firsts AS (
      (SELECT l.endpoint, l.due_at FROM live l WHERE l.owner IS NULL AND l.due_at IS NOT NULL
        ORDER BY l.endpoint, l.due_at LIMIT 1)
      UNION ALL
      SELECT n.endpoint, n.due_at FROM firsts f CROSS JOIN LATERAL (SELECT l.endpoint, l.due_at FROM live l
        WHERE l.endpoint > f.endpoint AND l.owner IS NULL AND l.due_at IS NOT NULL
        ORDER BY l.endpoint, l.due_at LIMIT 1) n
    ), known AS (
      SELECT f.endpoint, f.due_at FROM firsts f
      UNION ALL
      (SELECT l.endpoint, min(l.due_at) FROM live l WHERE l.owner IS NOT NULL AND l.due_at <= at GROUP BY l.endpoint)
      UNION ALL
      SELECT p.no, at FROM endpoints p
        CROSS JOIN LATERAL (SELECT 1 FROM live l WHERE l.endpoint = p.no AND l.owner IS NULL LIMIT 1) AS any_row
        WHERE p.removed
    )
    SELECT k.endpoint, min(k.due_at) FROM known k GROUP BY k.endpoint;
END $$;

-- Pulls due times of endpoints back: after a failure to `latest`, and of what no failure has put off to `untried`. Answers for
-- each how many. In one order, so that two members that do it do not wait for each other.
CREATE FUNCTION pull_back_v1(
  of_stream int, to_seq bigint, of_endpoints int[], latest bigint[], untried bigint[], beginnings text[]
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  n int;
  pulled int;
  counts int[] := array_fill(0, ARRAY[cardinality(of_endpoints)]);
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  FOR n IN SELECT u.place FROM unnest(of_endpoints) WITH ORDINALITY AS u (endpoint, place) ORDER BY u.endpoint, u.place LOOP
    UPDATE live l SET version = l.version + 1,
        due_at = CASE WHEN l.retry_after IS NULL THEN untried[n] ELSE latest[n] END,
        retry_after = CASE WHEN l.retry_after IS NOT NULL THEN least(l.retry_after, latest[n]) END
      WHERE l.endpoint = of_endpoints[n] AND l.owner IS NULL AND l.due_at IS NOT NULL
        AND l.due_at > least(latest[n], untried[n])
        AND l.due_at > CASE WHEN l.retry_after IS NULL THEN untried[n] ELSE latest[n] END
        AND (beginnings[n] IS NULL OR starts_with(l.last_error, beginnings[n]));
    GET DIAGNOSTICS pulled = ROW_COUNT;
    counts[n] := pulled;
  END LOOP;
  RETURN answered_v1(of_stream, to_json(counts)::text);
END $$;
