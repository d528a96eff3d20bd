"""Airflow's simple auth manager, with Dags that only an admin may read: its own roles are about all Dags alike."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

SECRET = "secret"
"""How the Dags begin that only an admin may read."""
HALF = "half"
"""A Dag of which others may read nothing but that it is there."""


class DagsByName(SimpleAuthManager):
    """Decides by a Dag's name as well."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, access_entity: Any = None, **asked: Any) -> bool:
        if details is not None and str(details.id) == HALF and access_entity is not None and user.role != "ADMIN":
            return False
        if details is not None and str(details.id).startswith(SECRET) and user.role != "ADMIN":
            return False
        return super().is_authorized_dag(user=user, details=details, access_entity=access_entity, **asked)
