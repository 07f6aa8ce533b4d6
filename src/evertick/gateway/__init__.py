"""The gateway process: serves its own crons by the contract `/v1`, with or without the platform."""
