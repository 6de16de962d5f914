"""Ways to key the noise, and how much each way tells an attacker."""
