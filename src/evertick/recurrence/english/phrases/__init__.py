"""Phrases: writes and reads dates, days, times of day and places in English."""
