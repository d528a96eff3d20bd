"""What depends on the versions of our dependencies; each module is about one of them.

Most entries are what older versions lack, and name the version that has it. ``timetables`` reads a Dag's timetable,
from whichever of Airflow's two families.
"""
