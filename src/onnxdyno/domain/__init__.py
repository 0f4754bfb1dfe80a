"""Frozen values that every other part shares. Standard library only."""
