"""The compensator: performs the plans of unwinding groups where contract and tenant say `automatic` both."""
