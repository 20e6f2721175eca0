"""The checked program: what the checker hands to the planner. Plain frozen data."""
