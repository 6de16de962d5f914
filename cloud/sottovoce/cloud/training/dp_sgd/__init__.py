"""Learning that tells next to nothing of any one example: the plan, its price, clip and noise."""
