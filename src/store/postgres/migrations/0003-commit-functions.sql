-- Ends live deliveries that still have the version before; answers the places of those that had.
CREATE FUNCTION end_v1(
  of_stream int, ids uuid[], versions int[], statuses text[], settled bigint[], tried int[], budget int[], reasons text[],
  errors text[], attempted bigint[]
) RETURNS int[] LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  done int[];
  left_over int[];
  moved int[];
BEGIN
  WITH gone AS (
    DELETE FROM live l WHERE l.id = ANY (ids) AND l.version = versions[array_position(ids, l.id)] - 1
    RETURNING l.*, array_position(ids, l.id) AS place
  ), put AS (
    INSERT INTO ended (id, event_id, received_at, settled_at, last_attempt_at, replayed_at, endpoint, version, attempts,
        tries_in_budget, replay, size, status, reason, lane, last_error)
      SELECT g.id, g.event_id, g.received_at, settled[g.place], attempted[g.place], g.replayed_at, g.endpoint,
        versions[g.place], tried[g.place], budget[g.place], g.replay, g.size, statuses[g.place], reasons[g.place], g.lane,
        errors[g.place]
      FROM gone g
  ), counted AS (
    INSERT INTO dead_letter_hours AS known (hour, endpoint, reason, stream, count)
      SELECT settled[g.place] / 3600000, g.endpoint, reasons[g.place], of_stream, count(*)
      FROM gone g WHERE reasons[g.place] IS NOT NULL GROUP BY 1, 2, 3
    ON CONFLICT (hour, endpoint, reason, stream) DO UPDATE SET count = known.count + excluded.count
  ), outcomes AS (
    UPDATE replays r SET delivered = r.delivered + o.delivered, failed_again = r.failed_again + o.failed,
        updated_at = greatest(r.updated_at, o.at),
        status = CASE WHEN o.is_last AND r.status = 'finished' THEN 'settled' ELSE r.status END,
        settled_at = CASE WHEN o.is_last THEN o.at ELSE r.settled_at END
      FROM (
        SELECT c.*, known.ended_at IS NOT NULL AND known.settled_at IS NULL
            AND known.requeued = known.delivered + known.failed_again + c.delivered + c.failed AS is_last
          FROM (
            SELECT g.replay, count(*) FILTER (WHERE statuses[g.place] = 'delivered') AS delivered,
              count(*) FILTER (WHERE statuses[g.place] <> 'delivered') AS failed, max(settled[g.place]) AS at
            FROM gone g WHERE g.replay IS NOT NULL GROUP BY g.replay
          ) c CROSS JOIN LATERAL (SELECT * FROM replays k WHERE k.no = c.replay FOR NO KEY UPDATE) known
      ) o WHERE r.no = o.replay
  )
  SELECT coalesce(array_agg(g.place), '{}') INTO done FROM gone g;
  IF cardinality(done) = cardinality(ids) THEN
    RETURN done;
  END IF;
  -- What has ended before may end otherwise.
  SELECT array_agg(place) INTO left_over FROM generate_subscripts(ids, 1) AS place WHERE place <> ALL (done);
  WITH changed AS (
    UPDATE ended e SET (version, status, settled_at, attempts, tries_in_budget, reason, last_error, last_attempt_at) =
      (SELECT versions[p], statuses[p], settled[p], tried[p], budget[p], reasons[p], errors[p], attempted[p]
        FROM (SELECT array_position(ids, e.id) AS p OFFSET 0) AS found)
    WHERE e.id = ANY (ARRAY(SELECT ids[x] FROM unnest(left_over) AS x))
      AND e.version = versions[array_position(ids, e.id)] - 1
    RETURNING array_position(ids, e.id) AS place, e.endpoint
  ), counted AS (
    INSERT INTO dead_letter_hours AS known (hour, endpoint, reason, stream, count)
      SELECT settled[c.place] / 3600000, c.endpoint, reasons[c.place], of_stream, count(*)
      FROM changed c WHERE reasons[c.place] IS NOT NULL GROUP BY 1, 2, 3
    ON CONFLICT (hour, endpoint, reason, stream) DO UPDATE SET count = known.count + excluded.count
  )
  SELECT array_agg(c.place) INTO moved FROM changed c;
  RETURN done || coalesce(moved, '{}');
END $$;

-- Lets deliveries wait that still have the version before: given back, to be tried again, or brought back after their
-- end. Answers the places of those that had. In a lane the head keeps its due time, what is behind it has none, and what
-- is brought back goes to the tail. `promoted`: their head has just ended in the same call.
CREATE FUNCTION wait_v1(
  ids uuid[], versions int[], dues bigint[], tried int[], budget int[], retries bigint[], errors text[],
  attempted bigint[], replayed bigint[], keeps int[], promoted boolean, of_replay int
) RETURNS int[] LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  done int[];
  left_over uuid[];
  back int[];
BEGIN
  WITH waits AS (
    UPDATE live l SET (version, due_at, owner, attempts, tries_in_budget, retry_after, last_error, last_attempt_at,
        replayed_at, interruptions) =
      (SELECT versions[p], CASE WHEN l.due_at IS NULL AND NOT promoted THEN NULL ELSE dues[p] END, NULL::int, tried[p],
          budget[p], retries[p], errors[p], attempted[p], replayed[p], l.interruptions * keeps[p]
        FROM (SELECT array_position(ids, l.id) AS p OFFSET 0) AS found)
    WHERE l.id = ANY (ids) AND l.version = versions[array_position(ids, l.id)] - 1
    RETURNING array_position(ids, l.id) AS place
  )
  SELECT coalesce(array_agg(w.place), '{}') INTO done FROM waits w;
  IF cardinality(done) = cardinality(ids) THEN
    RETURN done;
  END IF;
  SELECT array_agg(ids[place]) INTO left_over FROM generate_subscripts(ids, 1) AS place WHERE place <> ALL (done);
  WITH gone AS (
    DELETE FROM ended e WHERE e.id = ANY (left_over) AND e.version = versions[array_position(ids, e.id)] - 1
    RETURNING e.*, array_position(ids, e.id) AS place
  ), entering AS (
    SELECT g.*, g.lane IS NULL OR (row_number() OVER (PARTITION BY g.endpoint, g.lane ORDER BY g.place) = 1
      AND (SELECT 1 FROM live l WHERE l.endpoint = g.endpoint AND l.lane = g.lane LIMIT 1) IS NULL) AS is_head
    FROM gone g ORDER BY g.place
  ), put AS (
    INSERT INTO live (id, event_id, received_at, due_at, position, retry_after, last_attempt_at, replayed_at, endpoint,
        version, attempts, tries_in_budget, replay, size, lane, last_error)
      SELECT n.id, n.event_id, n.received_at, CASE WHEN n.is_head THEN dues[n.place] END,
        CASE WHEN n.lane IS NOT NULL THEN nextval('positions') END, retries[n.place], attempted[n.place],
        replayed[n.place], n.endpoint, versions[n.place], tried[n.place], budget[n.place], of_replay, n.size, n.lane,
        errors[n.place]
      FROM entering n ORDER BY n.place
  )
  SELECT array_agg(g.place) INTO back FROM gone g;
  RETURN done || coalesce(back, '{}');
END $$;

-- Brings up the next of lanes that have rows and no head, claimed for the member where that is wished and its body is
-- small. Answers who it is, by lane: claimed (`next`) or due.
CREATE FUNCTION promote_v1(
  member int, endpoints int[], lanes text[], claims bigint[], dues bigint[], large int
) RETURNS jsonb LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off AS $$
DECLARE
  names text[];
  up jsonb;
BEGIN
  SELECT array_agg(e || ' ' || l ORDER BY n) INTO names FROM unnest(endpoints, lanes) WITH ORDINALITY AS u (e, l, n);
  WITH raised AS (
    UPDATE live l SET (version, owner, due_at) =
      (SELECT l.version + 1, CASE WHEN takes THEN member END, CASE WHEN takes THEN claims[p] ELSE dues[p] END
        FROM (SELECT p, claims[p] IS NOT NULL AND l.size < large AS takes
          FROM (SELECT array_position(names, l.endpoint || ' ' || l.lane) AS p OFFSET 0) AS named OFFSET 0) AS found)
    WHERE l.due_at IS NULL AND l.ctid = ANY (ARRAY(
      SELECT head.tid FROM unnest(endpoints, lanes) AS u (endpoint, lane)
      CROSS JOIN LATERAL (SELECT n.ctid AS tid FROM live n WHERE n.endpoint = u.endpoint AND n.lane = u.lane
        ORDER BY n.position LIMIT 1) head))
    RETURNING array_position(names, l.endpoint || ' ' || l.lane) AS place, l.id, l.owner
  )
  SELECT jsonb_agg(CASE WHEN r.owner IS NULL THEN jsonb_build_array(r.place)
    ELSE jsonb_build_array(r.place, r.id) END) INTO up FROM raised r;
  RETURN up;
END $$;

-- Whether a change that follows the end of its head may be made: it is next in its lane, waits, and is as it was read.
CREATE FUNCTION is_next_v1(of_endpoint int, of_lane text, of_id uuid, read_version int) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  head record;
BEGIN
  SELECT l.id, l.version, l.owner INTO head FROM live l WHERE l.endpoint = of_endpoint AND l.lane = of_lane
    ORDER BY l.position LIMIT 1;
  RETURN FOUND AND head.id = of_id AND head.version = read_version AND head.owner IS NULL;
END $$;

CREATE FUNCTION log_attempts_v1(
  ids uuid[], numbers int[], started bigint[], took int[], codes int[], outcomes text[], errors text[], headers text[],
  bodies text[], stacks text[], classes text[], dependencies text[], changed uuid[]
) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO attempts (delivery, number, started_at, took_ms, status_code, outcome, error, response_headers,
      response_body, stack, error_class, dependency)
    SELECT * FROM unnest(ids, numbers, started, took, codes, outcomes, errors, headers, bodies, stacks, classes,
      dependencies) AS u (id)
    WHERE changed IS NULL OR u.id = ANY (changed)
  ON CONFLICT (delivery, number) DO UPDATE SET started_at = excluded.started_at, took_ms = excluded.took_ms,
    status_code = excluded.status_code, outcome = excluded.outcome, error = excluded.error,
    response_headers = excluded.response_headers, response_body = excluded.response_body, stack = excluded.stack,
    error_class = excluded.error_class, dependency = excluded.dependency;
END $$;

-- Changes deliveries: ends (e_…), and waits (w_…), each once in a call, and what was sent ahead of its turn: chain links
-- (c_…), one after the other behind their head, each the place of an end (positive) or of a wait (negative) and the place
-- of the one before it, and the lane that it is in. Those places are not changed before their turn. Answers the
-- places of stale ends (`e`) and waits (`w`), and the next of lanes (`up`, see promote_v1).
CREATE FUNCTION commit_v1(
  of_stream int, to_seq bigint, member int, slots int[],
  e_ids uuid[], e_versions int[], e_statuses text[], e_settled bigint[], e_tried int[], e_budget int[], e_reasons text[],
  e_errors text[], e_attempted bigint[],
  w_ids uuid[], w_versions int[], w_dues bigint[], w_tried int[], w_budget int[], w_retries bigint[], w_errors text[],
  w_attempted bigint[], w_replayed bigint[], w_keeps int[],
  c_places int[], c_after int[], c_lanes int[],
  a_ids uuid[], a_numbers int[], a_started bigint[], a_took int[], a_codes int[], a_outcomes text[], a_errors text[],
  a_headers text[], a_bodies text[], a_stacks text[], a_classes text[], a_dependencies text[],
  l_endpoints int[], l_lanes text[], l_claims bigint[], l_dues bigint[], large int
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  e_done int[] := '{}';
  w_done int[] := '{}';
  picks int[];
  said jsonb;
  up jsonb;
  link int;
  place int;
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  IF slots IS NOT NULL THEN
    PERFORM lock_slots_v1(slots);
  END IF;
  IF c_places IS NULL THEN
    IF e_ids IS NOT NULL THEN
      e_done := end_v1(of_stream, e_ids, e_versions, e_statuses, e_settled, e_tried, e_budget, e_reasons, e_errors, e_attempted);
    END IF;
    IF w_ids IS NOT NULL THEN
      w_done := wait_v1(w_ids, w_versions, w_dues, w_tried, w_budget, w_retries, w_errors, w_attempted, w_replayed, w_keeps, false, NULL);
    END IF;
  ELSE
    -- First whatever is no link, then link by link.
    SELECT array_agg(x) INTO picks FROM generate_subscripts(e_ids, 1) AS x WHERE x <> ALL (c_places);
    e_done := end_some_v1(of_stream, picks, e_ids, e_versions, e_statuses, e_settled, e_tried, e_budget, e_reasons, e_errors, e_attempted);
    SELECT array_agg(x) INTO picks FROM generate_subscripts(w_ids, 1) AS x WHERE -x <> ALL (c_places);
    w_done := wait_some_v1(picks, w_ids, w_versions, w_dues, w_tried, w_budget, w_retries, w_errors, w_attempted, w_replayed, w_keeps, false);
    FOR link IN 1 .. cardinality(c_places) LOOP
      CONTINUE WHEN c_after[link] IS NULL OR c_after[link] <> ALL (e_done);
      place := c_places[link];
      IF place > 0 THEN
        CONTINUE WHEN NOT is_next_v1(l_endpoints[c_lanes[link]], l_lanes[c_lanes[link]], e_ids[place], e_versions[place] - 1);
        e_done := e_done || end_some_v1(of_stream, ARRAY[place], e_ids, e_versions, e_statuses, e_settled, e_tried, e_budget, e_reasons, e_errors, e_attempted);
      ELSE
        CONTINUE WHEN NOT is_next_v1(l_endpoints[c_lanes[link]], l_lanes[c_lanes[link]], w_ids[-place], w_versions[-place] - 1);
        w_done := w_done || wait_some_v1(ARRAY[-place], w_ids, w_versions, w_dues, w_tried, w_budget, w_retries, w_errors, w_attempted, w_replayed, w_keeps, true);
      END IF;
    END LOOP;
  END IF;
  IF l_endpoints IS NOT NULL THEN
    up := promote_v1(member, l_endpoints, l_lanes, l_claims, l_dues, large);
  END IF;
  IF cardinality(e_done) < coalesce(cardinality(e_ids), 0) OR cardinality(w_done) < coalesce(cardinality(w_ids), 0) THEN
    said := jsonb_build_object(
      'e', (SELECT jsonb_agg(x) FROM generate_subscripts(e_ids, 1) AS x WHERE x <> ALL (e_done)),
      'w', (SELECT jsonb_agg(x) FROM generate_subscripts(w_ids, 1) AS x WHERE x <> ALL (w_done)));
    IF a_ids IS NOT NULL THEN
      PERFORM log_attempts_v1(a_ids, a_numbers, a_started, a_took, a_codes, a_outcomes, a_errors, a_headers, a_bodies,
        a_stacks, a_classes, a_dependencies,
        ARRAY(SELECT e_ids[x] FROM unnest(e_done) AS x) || ARRAY(SELECT w_ids[x] FROM unnest(w_done) AS x));
    END IF;
  ELSIF a_ids IS NOT NULL THEN
    PERFORM log_attempts_v1(a_ids, a_numbers, a_started, a_took, a_codes, a_outcomes, a_errors, a_headers, a_bodies,
      a_stacks, a_classes, a_dependencies, NULL);
  END IF;
  IF up IS NOT NULL THEN
    said := coalesce(said, '{}') || jsonb_build_object('up', up);
  END IF;
  RETURN answered_v1(of_stream, said::text);
END $$;

-- The same as end_v1 and wait_v1 for some of the places; answers places in the whole.
CREATE FUNCTION end_some_v1(
  of_stream int, picks int[], ids uuid[], versions int[], statuses text[], settled bigint[], tried int[], budget int[],
  reasons text[], errors text[], attempted bigint[]
) RETURNS int[] LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  done int[];
BEGIN
  IF picks IS NULL THEN
    RETURN '{}';
  END IF;
  SELECT end_v1(of_stream, array_agg(ids[x]), array_agg(versions[x]), array_agg(statuses[x]), array_agg(settled[x]),
    array_agg(tried[x]), array_agg(budget[x]), array_agg(reasons[x]), array_agg(errors[x]), array_agg(attempted[x]))
    INTO done FROM unnest(picks) AS x;
  RETURN ARRAY(SELECT picks[d] FROM unnest(done) AS d);
END $$;

CREATE FUNCTION wait_some_v1(
  picks int[], ids uuid[], versions int[], dues bigint[], tried int[], budget int[], retries bigint[], errors text[],
  attempted bigint[], replayed bigint[], keeps int[], promoted boolean
) RETURNS int[] LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  done int[];
BEGIN
  IF picks IS NULL THEN
    RETURN '{}';
  END IF;
  SELECT wait_v1(array_agg(ids[x]), array_agg(versions[x]), array_agg(dues[x]), array_agg(tried[x]),
    array_agg(budget[x]), array_agg(retries[x]), array_agg(errors[x]), array_agg(attempted[x]), array_agg(replayed[x]),
    array_agg(keeps[x]), promoted, NULL) INTO done FROM unnest(picks) AS x;
  RETURN ARRAY(SELECT picks[d] FROM unnest(done) AS d);
END $$;
