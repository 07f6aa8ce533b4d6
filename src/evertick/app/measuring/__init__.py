"""Measuring: what is measured of an app, for every reader."""
