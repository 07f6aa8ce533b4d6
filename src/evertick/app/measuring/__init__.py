"""Measuring: what is measured of an app, whoever reads it."""
