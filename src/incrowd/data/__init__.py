"""Own data: tables of people from files and frames, joined by name."""

from incrowd.data.describe import ColumnDescription, Description, describe
from incrowd.data.people import align
from incrowd.data.reading import read
from incrowd.data.records import Records
from incrowd.data.text import read_numbers

__all__ = [
    "ColumnDescription",
    "Description",
    "Records",
    "align",
    "describe",
    "read",
    "read_numbers",
]
