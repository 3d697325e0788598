"""The tables and figures of the documentation, one module per subject, ours beside the papers'.

Each module is run as ``python -m experiments.<name>`` and writes into ``docs/figures/``. The same
code and the same machine give the same bytes. Formulas of papers that are not proven, or proven
false, live here under names that begin with ``paper_``; the library never uses them.
"""
