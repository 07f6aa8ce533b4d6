"""The gateway process: crons of its own behind the contract `/v1`, with or without the platform."""
