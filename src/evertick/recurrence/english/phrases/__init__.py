"""Phrases: dates, days, times of day and places in English, as they are written."""
