"""The accuracy lost by private training, by method, epsilon and release."""
