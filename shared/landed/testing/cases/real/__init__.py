"""Cases in real time: the same steps and the same stand-in provider, on a real broker, a real database and real services.

`python -m landed.testing.cases FILE --real C01,C02` starts a projector and a reconciler, on topics and in a database of
their own.
"""
