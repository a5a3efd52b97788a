-- A conflict is an answer and no error: nothing was written but the mark.
CREATE FUNCTION put_entry_v1(
  of_stream int, to_seq bigint, of_kind text, of_id text, expected int, of_scope text, of_name text, of_settings text,
  of_secrets bytea, of_tenant text
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  known int;
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  -- Whoever changes the registry waits here: what others see of it is one change after the other.
  PERFORM 1 FROM registry_version FOR UPDATE;
  SELECT r.version INTO known FROM registry r WHERE r.kind = of_kind AND r.id = of_id;
  IF coalesce(known, 0) <> expected
    OR (of_tenant IS NOT NULL AND EXISTS (SELECT 1 FROM endpoints p WHERE p.id = of_id AND p.removed)) THEN
    RETURN answered_v1(of_stream, 'stale');
  END IF;
  IF of_name IS NOT NULL AND EXISTS (SELECT 1 FROM registry r WHERE r.kind = of_kind AND r.scope = of_scope
      AND r.name = of_name AND r.id <> of_id) THEN
    RETURN answered_v1(of_stream, 'name_taken');
  END IF;
  IF of_tenant IS NOT NULL THEN
    INSERT INTO endpoints (id, tenant) VALUES (of_id, of_tenant) ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant;
  END IF;
  INSERT INTO registry (kind, id, version, scope, name, settings, secrets)
    VALUES (of_kind, of_id, expected + 1, of_scope, of_name, of_settings, of_secrets)
  ON CONFLICT (kind, id) DO UPDATE SET version = excluded.version, scope = excluded.scope, name = excluded.name,
    settings = excluded.settings, secrets = excluded.secrets;
  UPDATE registry_version SET version = version + 1;
  RETURN NULL;
END $$;

CREATE FUNCTION remove_entry_v1(of_stream int, to_seq bigint, of_kind text, of_id text) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  PERFORM 1 FROM registry_version FOR UPDATE;
  DELETE FROM registry r WHERE r.kind = of_kind AND r.id = of_id;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  IF of_kind = 'endpoint' THEN
    UPDATE endpoints SET removed = true WHERE id = of_id;
  END IF;
  UPDATE registry_version SET version = version + 1;
  RETURN NULL;
END $$;

CREATE FUNCTION put_conditions_v1(
  of_stream int, to_seq bigint, ids text[], breakers text[], held bigint[], failing bigint[], errors text[], error_ats bigint[]
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM mark_v1(of_stream, to_seq);
  PERFORM 1 FROM endpoints p WHERE p.id = ANY (ids) ORDER BY p.no FOR NO KEY UPDATE;
  UPDATE endpoints p SET breaker = u.breaker, held_until = u.held, failing_since = u.failing, last_error = u.error,
      last_error_at = u.error_at
    FROM unnest(ids, breakers, held, failing, errors, error_ats) AS u (id, breaker, held, failing, error, error_at)
    WHERE p.id = u.id;
  RETURN NULL;
END $$;
