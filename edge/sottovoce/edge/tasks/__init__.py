"""The agent's tasks: privatise, predict, embed, customise."""
