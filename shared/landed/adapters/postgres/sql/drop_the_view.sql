-- Everything that is folded from the log; the outbox keeps what is on its way.
TRUNCATE operations, routes, events, news, refused_records, undecided, grants, resources_taken, breakers
