"""What Kafka says. The only code that imports ``kafka``; start reading at :mod:`.offsets_client`.

``offsets_client`` composes the calls; each request has one module (request built, response parsed, and the thin I/O
between), which gets a ``session``; ``fan_out`` retries it piece by piece; ``metadata`` and ``coordinators`` say where
a piece has to be asked; ``transport`` holds the connections.
"""
