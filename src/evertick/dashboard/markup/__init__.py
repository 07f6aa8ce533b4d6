"""Markup: how moments, states, strips and commands look on every page."""
