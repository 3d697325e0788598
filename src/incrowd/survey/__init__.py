"""Surveys as files: read them, check what they would guarantee, run them."""

from incrowd.survey.calibrate import Goal, Unknown, calibrate, calibrate_delta, unknowns
from incrowd.survey.parse import Budget
from incrowd.survey.prepared import Engine, Survey, build, load, load_question

__all__ = [
    "Budget",
    "Engine",
    "Goal",
    "Survey",
    "Unknown",
    "build",
    "calibrate",
    "calibrate_delta",
    "load",
    "load_question",
    "unknowns",
]
