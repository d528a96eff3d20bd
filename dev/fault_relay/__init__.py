"""The process behind :class:`dev.fault_proxy.FaultProxy`: relays connections to one broker, and spoils them on command.

It uses the standard library only, so that it is up at once.
"""
