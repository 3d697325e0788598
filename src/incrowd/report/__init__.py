"""Results for people: tables, figures and the report of a run."""

from incrowd.report.format import round_down, round_up
from incrowd.report.html import Document, render, write

__all__ = ["Document", "render", "round_down", "round_up", "write"]
