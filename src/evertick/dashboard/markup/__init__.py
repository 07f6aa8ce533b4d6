"""Markup: how times, states, strips and commands look on every page."""
