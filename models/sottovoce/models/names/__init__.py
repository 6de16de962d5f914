"""Train the finder of names of persons, places and organisations."""
