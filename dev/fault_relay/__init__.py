"""The process behind :class:`dev.fault_proxy.FaultProxy`: relays connections to a broker, and disrupts them on command.

It uses only the standard library, so that it starts fast.
"""
