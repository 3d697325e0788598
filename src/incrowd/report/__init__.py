"""Results for people: tables, figures and the report of a run."""

from incrowd.report.format import round_down, round_up
from incrowd.report.html import Document, render, require_writable, write

__all__ = ["Document", "render", "require_writable", "round_down", "round_up", "write"]
