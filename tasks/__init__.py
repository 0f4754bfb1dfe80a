"""One library call each: what Prefect sees of a step, and the one rule by which it is tried again."""
