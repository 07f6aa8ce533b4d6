"""What a running function shares with its surroundings: the environment, its log, its occurrence."""
