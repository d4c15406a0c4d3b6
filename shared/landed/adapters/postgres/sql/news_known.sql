-- Digest of the message under which a delivery is on record already.
SELECT digest
FROM news
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s AND endpoint = %(endpoint)s AND kind <> 'outcome'
LIMIT 1
