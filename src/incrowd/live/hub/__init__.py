"""The hub: a registry of keys, a notice board of tasks, and a mailbox of cells it cannot open."""
