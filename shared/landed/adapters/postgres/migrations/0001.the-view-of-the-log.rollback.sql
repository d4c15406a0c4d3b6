DROP TABLE decisions, undecided, refused_records, events, routes, operations, positions;
