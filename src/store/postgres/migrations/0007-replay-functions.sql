CREATE FUNCTION create_replay_v1(
  of_stream int, to_seq bigint, of_id text, of_tenant text, of_status text, of_settings text, of_matched bigint,
  from_id uuid, to_id uuid, at bigint
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  INSERT INTO replays (id, tenant, status, settings, matched, requeued, delivered, failed_again, skipped, done_id, last_id,
      created_at, updated_at)
    VALUES (of_id, of_tenant, of_status, of_settings, of_matched, 0, 0, 0, 0, from_id, to_id, at, at);
  RETURN NULL;
END $$;

-- Marks a replay as settled when it has ended and no outcome is missing (core/replay). Its row is locked.
CREATE FUNCTION settle_replay_v1(of_id text, at bigint) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  UPDATE replays r SET status = CASE WHEN r.status = 'finished' THEN 'settled' ELSE r.status END, settled_at = at
    WHERE r.id = of_id AND r.ended_at IS NOT NULL AND r.settled_at IS NULL
      AND r.requeued = r.delivered + r.failed_again;
END $$;

CREATE FUNCTION change_replay_v1(of_stream int, to_seq bigint, of_id text, before text, after text, at bigint, ends_at bigint)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  UPDATE replays r SET status = after, updated_at = at, ended_at = ends_at WHERE r.id = of_id AND r.status = before;
  PERFORM settle_replay_v1(of_id, at);
  RETURN NULL;
END $$;

-- One step of a running replay: requeues what was found (w_…), makes what was missing (m_…) and moves the job on, from
-- where it was when that was found. Answers the places that were not as they had been read, and what is behind in a lane;
-- `lost`: somebody else has moved or stopped the job.
CREATE FUNCTION step_replay_v1(
  of_stream int, to_seq bigint, of_id text, done_before uuid, done_after uuid, skips bigint, is_over boolean, at bigint,
  slots int[],
  w_ids uuid[], w_versions int[], w_dues bigint[], w_tried int[], w_budget int[], w_retries bigint[], w_errors text[],
  w_attempted bigint[], w_replayed bigint[], w_keeps int[],
  m_ids uuid[], m_events uuid[], m_endpoints int[], m_lanes text[]
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  replay_no int;
  done int[] := '{}';
  made int := 0;
  behind jsonb;
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  IF slots IS NOT NULL THEN
    PERFORM lock_slots_v1(slots);
  END IF;
  UPDATE replays r SET done_id = done_after, skipped = r.skipped + skips, updated_at = at
    WHERE r.id = of_id AND r.status = 'running' AND r.done_id = done_before RETURNING r.no INTO replay_no;
  IF NOT FOUND THEN
    RETURN answered_v1(of_stream, '{"lost":true}');
  END IF;
  IF w_ids IS NOT NULL THEN
    done := wait_v1(w_ids, w_versions, w_dues, w_tried, w_budget, w_retries, w_errors, w_attempted, w_replayed, w_keeps,
      false, replay_no);
  END IF;
  IF m_ids IS NOT NULL THEN
    -- An event that is being pruned gets no delivery.
    PERFORM 1 FROM events e WHERE e.id = ANY (m_events) ORDER BY e.id FOR KEY SHARE;
    WITH wished AS (
      SELECT u.*, e.received_at, e.size, u.lane IS NULL OR (row_number() OVER (PARTITION BY u.endpoint, u.lane ORDER BY u.place) = 1
        AND (SELECT 1 FROM live l WHERE l.endpoint = u.endpoint AND l.lane = u.lane LIMIT 1) IS NULL) AS is_head
      FROM unnest(m_ids, m_events, m_endpoints, m_lanes) WITH ORDINALITY AS u (id, event_id, endpoint, lane, place)
      CROSS JOIN LATERAL (SELECT v.received_at, v.size FROM events v WHERE v.id = u.event_id LIMIT 1) e
      ORDER BY u.place
    ), put AS (
      INSERT INTO live (id, event_id, received_at, due_at, position, replayed_at, endpoint, version, replay, size, lane)
        SELECT w.id, w.event_id, w.received_at, CASE WHEN w.is_head THEN at END,
          CASE WHEN w.lane IS NOT NULL THEN nextval('positions') END, at, w.endpoint, 1, replay_no, w.size, w.lane
        FROM wished w ORDER BY w.place
      RETURNING id
    )
    SELECT count(*) INTO made FROM put;
  END IF;
  UPDATE replays r SET requeued = r.requeued + cardinality(done) + made,
      status = CASE WHEN is_over THEN 'finished' ELSE r.status END, ended_at = CASE WHEN is_over THEN at ELSE r.ended_at END
    WHERE r.no = replay_no;
  IF is_over THEN
    PERFORM settle_replay_v1(of_id, at);
  END IF;
  SELECT jsonb_agg(l.id) INTO behind FROM live l
    WHERE l.id = ANY (ARRAY(SELECT w_ids[x] FROM unnest(done) AS x) || coalesce(m_ids, '{}')) AND l.due_at IS NULL;
  RETURN answered_v1(of_stream, jsonb_build_object('done', to_jsonb(done), 'behind', behind)::text);
END $$;

CREATE FUNCTION discard_v1(of_stream int, to_seq bigint, ids uuid[], versions int[]) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  deleted int;
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  WITH gone AS (
    DELETE FROM ended e WHERE e.id = ANY (ids) AND e.version = versions[array_position(ids, e.id)] AND e.reason IS NOT NULL
    RETURNING e.id
  ), logs AS (
    DELETE FROM attempts a WHERE a.delivery = ANY (ARRAY(SELECT g.id FROM gone g))
  )
  SELECT count(*) INTO deleted FROM gone;
  RETURN answered_v1(of_stream, deleted::text);
END $$;
