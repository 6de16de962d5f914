"""What private training costs in accuracy: by method, epsilon and release."""
