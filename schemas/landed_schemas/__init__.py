"""The contract of the log: one Avro schema for each event of the catalogue, and the frozen schemas of every release.

`events/<name>.avsc` is the present contract, written by hand; `released/<version>/<name>.avsc` is what that version
shipped and never changes. Each file stands alone: values and enums that several events share are repeated in each of
them, alike to the letter.
"""

from landed_schemas._compatibility import problems
from landed_schemas._load import Schema, fingerprint, parse, released, schemas, text

__all__ = ["Schema", "fingerprint", "parse", "problems", "released", "schemas", "text"]
