"""What Kafka says. The only code that imports ``kafka``; start reading at :mod:`.offsets_client`.

``offsets_client`` combines requests into calls. Each request has a module that builds it, parses its response, and does
the thin I/O in between, given a ``session``. ``fan_out`` retries a request piece by piece. ``metadata`` and
``coordinators`` say which broker to ask about a piece. ``transport`` holds the connections.
"""
