"""Results for people and programs: one list of sections, and a page, a terminal and JSON of it."""

from incrowd.report.format import round_down, round_up
from incrowd.report.html import render, require_writable, write
from incrowd.report.sections import Document, Told, answers_of, sections_of

__all__ = [
    "Document",
    "Told",
    "answers_of",
    "render",
    "require_writable",
    "round_down",
    "round_up",
    "sections_of",
    "write",
]
