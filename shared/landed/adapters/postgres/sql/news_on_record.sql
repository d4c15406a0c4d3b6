-- Those of several messages of one endpoint that are on record.
SELECT webhook_id
FROM news
WHERE tenant_id = %(tenant_id)s AND endpoint = %(endpoint)s AND webhook_id = ANY(%(webhook_ids)s) AND kind <> 'outcome'
