"""Looking inside a model by the names of its modules; no architecture is known here."""
