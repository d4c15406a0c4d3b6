-- Where the operations of a large batch are copied into before they are merged: twice as fast as one statement a row.
CREATE TEMPORARY TABLE IF NOT EXISTS incoming_operations (LIKE operations) ON COMMIT DELETE ROWS
