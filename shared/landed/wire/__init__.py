"""Bytes of the log and events of the core, in both directions. Pure: no clock, no randomness, no connection.

`records` is the door: `write` makes a record of an event, `read` makes an entry of a record and never raises. Below it
`keys` (record key), `partition` (where it goes), `framing` and `codec` (value), `mac` (who wrote it), `ids` (event id).

Source: docs/events.md; docs/semantics.md §2.
"""
