"""Constants of the Sottovoce integration."""

DOMAIN = "sottovoce"
