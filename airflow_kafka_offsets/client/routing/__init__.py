"""Whom to ask: leaders, coordinators, any broker; all of them at the same time, and again."""
