"""What an agent does: privatise, predict, embed, customise."""
