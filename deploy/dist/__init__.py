"""A release: wheels and source archives of all packages, and all that lies beside them."""
