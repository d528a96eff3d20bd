"""Who may see what. Airflow doesn't ask for a login in front of an app that a plugin mounts: the page asks by itself.

Every route needs a user who may see plugins. A pipeline needs the right to read each of the Dags that load it, too.
Where no Dag is known, only a user who may read all Dags sees it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user, requires_access_view
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, status
from sqlalchemy import select

_LONGEST_DAG_ID = 250
"""What Airflow's database takes."""
ASKS = Depends(requires_access_view(AccessView.PLUGINS))
"""What every route depends on."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who asks."""

    user: BaseUser

    def may_read(self, dag_ids: Iterable[str]) -> bool:
        """Whether all of some Dags may be read; of none, whether all that Airflow has may be."""
        asked = set(dag_ids)
        return all(map(self._may_read_dag, asked)) if asked else self._may_read_all()

    def require(self, dag_ids: Iterable[str]) -> None:
        """Refuse a user who may not read a pipeline, as if there were none: its name isn't told either.

        :raises HTTPException: 404.
        """
        if not self.may_read(dag_ids):
            raise absent()

    def may_read_tasks(self, dag_id: str) -> bool:
        """Whether a Dag's task instances may be read, with what they were given."""
        return self._may_read_dag(dag_id, DagAccessEntity.TASK_INSTANCE)

    def _may_read_dag(self, dag_id: str, entity: DagAccessEntity | None = None) -> bool:
        """Of a name that no Dag can have, and where there are teams of one that was deleted, whose team nobody knows
        any more: whether all Dags may be read."""
        if len(dag_id) > _LONGEST_DAG_ID or not dag_id.isprintable():
            return self._may_read_all()
        if conf.getboolean("core", "multi_team", fallback=False) and not _is_known(dag_id):
            return self._may_read_all()
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
        manager = get_auth_manager()
        return bool(manager.is_authorized_dag(method="GET", access_entity=entity, details=details, user=self.user))

    def _may_read_all(self) -> bool:
        manager = get_auth_manager()
        if not manager.is_authorized_dag(method="GET", user=self.user):
            return False
        with create_session() as session:
            known = set(session.scalars(select(DagModel.dag_id)))
            return known <= manager.get_authorized_dag_ids(user=self.user, method="GET", session=session)


def _is_known(dag_id: str) -> bool:
    with create_session() as session:
        return session.scalar(select(DagModel.dag_id).where(DagModel.dag_id == dag_id)) is not None


def absent() -> HTTPException:
    """There is no such pipeline, or this user may not see it: the answer is the same."""
    return HTTPException(
        status.HTTP_404_NOT_FOUND, "There is no such pipeline, or you may not read the Dags that load it."
    )


def _reader(user: Annotated[BaseUser, Depends(get_user)]) -> Reader:
    return Reader(user)


AnyReader = Annotated[Reader, Depends(_reader)]
