"""Gateways: processes elsewhere that own crons, as the platform knows them."""
