"""Backfills: of one schedule and of many, started and followed."""
