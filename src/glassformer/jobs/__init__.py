"""Jobs: where the rooms meet; a recipe becomes a model, a task and a plan, and a run folder comes out."""
