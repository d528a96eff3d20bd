"""Who may see what. Airflow doesn't check permissions for an app that a plugin mounts, so the page does it itself.

Every route requires a user who may see plugins. A pipeline is shown to users who may also read all the Dags that load
it. If no Dag is known, only users who may read all Dags see it.
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
"""The limit of Airflow's database."""
ASKS = Depends(requires_access_view(AccessView.PLUGINS))
"""The dependency that every route has."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The user who makes a request."""

    user: BaseUser

    def may_read(self, dag_ids: Iterable[str], entity: DagAccessEntity | None = None) -> bool:
        """Whether the user may read all of these Dags; if there are none, whether they may read all Dags of Airflow.

        :param entity: what of the Dags, such as the logs of their tasks; None for the Dags themselves.
        """
        wanted = set(dag_ids)
        return all(self._may_read_dag(dag_id, entity) for dag_id in wanted) if wanted else self._may_read_all()

    def require(self, dag_ids: Iterable[str]) -> None:
        """Refuse a user who may not read a pipeline. The answer doesn't reveal that the pipeline exists.

        :raises HTTPException: 404.
        """
        if not self.may_read(dag_ids):
            raise absent()

    def may_read_tasks(self, dag_id: str) -> bool:
        """Whether the user may read a Dag's task instances, with their arguments."""
        return self._may_read_dag(dag_id, DagAccessEntity.TASK_INSTANCE)

    def _may_read_dag(self, dag_id: str, entity: DagAccessEntity | None) -> bool:
        """Whether the user may read a Dag.

        The user must be allowed to read all Dags if the name is one that no Dag can have, or if Airflow has teams and
        the Dag was deleted, so that its team isn't known anymore.
        """
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
    """The answer if there is no such pipeline, and also if the user may not see it."""
    return HTTPException(
        status.HTTP_404_NOT_FOUND, "There is no such pipeline, or you may not read the Dags that load it."
    )


def _reader(user: Annotated[BaseUser, Depends(get_user)]) -> Reader:
    return Reader(user)


AnyReader = Annotated[Reader, Depends(_reader)]
