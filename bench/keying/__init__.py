"""What noise is drawn by, and what each choice is worth to an attacker."""
