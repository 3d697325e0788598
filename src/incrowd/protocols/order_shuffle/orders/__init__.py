"""Reference orders of people: by coordinates, by search in their groups, refined step by step."""
