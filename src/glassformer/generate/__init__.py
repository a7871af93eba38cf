"""Searching for a continuation, over the Step/State protocol; no model is known here."""
