"""Gateways: processes on other machines that own crons, as the platform sees them."""
